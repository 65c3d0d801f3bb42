#pragma once
// Conditions on torch's version: what drifted between 2.11 and 2.15 and matters to us. Other files have none, but for
// DTRAIN_TORCH_AT_LEAST around a function that would need types of a newer torch.
#include "strategies/torch/pch.h"

#define DTRAIN_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

#if !DTRAIN_TORCH_AT_LEAST(2, 11)
#error "dtrain needs torch 2.11 or newer"
#endif

// After a function that 2.15 calls, and an older torch may not know.
#if DTRAIN_TORCH_AT_LEAST(2, 15)
#define DTRAIN_OVERRIDE_2_15 override
#else
#define DTRAIN_OVERRIDE_2_15
#endif

namespace dtrain {

// The first line of what went wrong, without the backtrace that torch appends.
inline std::string short_reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

// Before, the fused SGD for CPUs did not store what it made of whole vectors of bfloat16 and half.
inline constexpr bool kFusedSgdStoresNarrowTypes = DTRAIN_TORCH_AT_LEAST(2, 15);

// Whether the group forms with its first reconfigure() and not as its backend is made.
template <class Options>
bool is_formed_later(const Options& options) {
  if constexpr (requires { options.enable_reconfigure; }) {
    return options.enable_reconfigure;
  } else {
    return false;
  }
}

template <class Options>
void form_later(Options& options, bool later) {
  if constexpr (requires { options.enable_reconfigure; }) options.enable_reconfigure = later;
}

// 2.15 renamed three collectives of ProcessGroup and deprecates the old names.
template <class Group>
c10::intrusive_ptr<c10d::Work> all_gather_single(Group& group, at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options = {}) {
  if constexpr (requires { group.all_gather_single(output, input, options); }) {
    return group.all_gather_single(output, input, options);
  } else {
    return group._allgather_base(output, input, options);
  }
}

template <class Group>
c10::intrusive_ptr<c10d::Work> reduce_scatter_single(Group& group, at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options = {}) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); }) {
    return group.reduce_scatter_single(output, input, options);
  } else {
    return group._reduce_scatter_base(output, input, options);
  }
}

// Of equal parts.
template <class Group>
c10::intrusive_ptr<c10d::Work> all_to_all_single(Group& group, at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllToAllOptions& options = {}) {
  std::vector<std::int64_t> equal;
  if constexpr (requires { group.all_to_all_single(output, input, equal, equal, options); }) {
    return group.all_to_all_single(output, input, equal, equal, options);
  } else {
    return group.alltoall_base(output, input, equal, equal, options);
  }
}

// Whoever asks for the data of a storage that has none gets the error, until access is allowed again.
template <class Storage>
void allow_access(Storage& storage) {
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); }) storage.clear_data_ptr_access_error_msg_();
}
template <class Storage>
void refuse_access(Storage& storage, const std::string& reason) {
  // An older torch cannot take it back.
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); })
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(reason);
}

// 2.11 shares the nodes of the autograd graph by std::shared_ptr, 2.15 by an intrusive one.
template <class Node, class... Args>
auto make_node(Args&&... args) {
  if constexpr (std::is_constructible_v<torch::autograd::Edge, std::shared_ptr<Node>, std::uint32_t>) {
    return std::make_shared<Node>(std::forward<Args>(args)...);
  } else {
    return c10::make_intrusive<Node>(std::forward<Args>(args)...);
  }
}

}  // namespace dtrain
