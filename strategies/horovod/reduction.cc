// See reduction.h.
#include "strategies/horovod/reduction.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "strategies/collectives/collectives.h"
#include "strategies/horovod/adasum.h"

namespace dtrain::hvd {
namespace {

using Clock = std::chrono::steady_clock;

at::ScalarType wire_type(const at::Tensor& tensor, GradientCompression compression) {
  const bool wide = tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble;
  if (!wide || compression == GradientCompression::none) return tensor.scalar_type();
  return compression == GradientCompression::fp16 ? at::kHalf : at::kBFloat16;
}

c10::Stream current_stream(const at::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

// On a GPU: what the calling thread's stream has written so far is what is reduced.
void note_written(Reduction& reduction) {
  const at::Device device = reduction.tensor.device();
  if (device.is_cpu()) return;
  reduction.written.emplace(device.type());
  reduction.written->record(current_stream(device));
}

std::string operation_text(const ReduceOptions& options, double before) {
  if (options.op == Op::adasum) return "adasum";
  if (options.op == Op::sum) return "sum";
  return before == 1 ? "average" : fmt::format("average divided by {} first", 1 / before);
}

bool in_place(const std::vector<Reduction*>& part) {
  const Reduction& first = *part.front();
  return part.size() == 1 && first.wire == first.tensor.scalar_type() && first.before == 1 &&
         first.tensor.is_contiguous();
}

// Small, in plain memory, and scaled by the same: then bytes are copied, and the buffer scaled as a whole. There
// torch's operations take many times as long as what they do; large ones gain from its threads.
bool is_plain(const std::vector<Reduction*>& part) {
  constexpr std::int64_t kSmall = 256 * 1024;  // bytes, on average
  const Reduction& first = *part.front();
  std::int64_t bytes = 0;
  for (const Reduction* each : part) bytes += each->request.bytes;
  return bytes <= kSmall * std::ssize(part) && std::all_of(part.begin(), part.end(), [&first](const Reduction* each) {
           return each->tensor.is_cpu() && each->tensor.is_contiguous() && each->tensor.scalar_type() == each->wire &&
                  each->before == first.before && each->after == first.after;
         });
}

void copy_in(const at::Tensor& flat, const std::vector<Reduction*>& part) {
  auto* to = static_cast<std::byte*>(flat.data_ptr());
  for (const Reduction* each : part) {
    if (each->tensor.nbytes() > 0) std::memcpy(to, each->tensor.const_data_ptr(), each->tensor.nbytes());
    to += each->tensor.nbytes();
  }
  if (part.front()->before != 1) flat.mul_(part.front()->before);
}

void copy_out(const at::Tensor& flat, const std::vector<Reduction*>& part) {
  if (part.front()->after != 1) flat.mul_(part.front()->after);
  const auto* from = static_cast<const std::byte*>(flat.const_data_ptr());
  for (const Reduction* each : part) {
    if (each->tensor.nbytes() > 0) std::memcpy(each->tensor.data_ptr(), from, each->tensor.nbytes());
    from += each->tensor.nbytes();
    each->tensor.unsafeGetTensorImpl()->bump_version();  // as each operation in place does
  }
}

}  // namespace

std::unique_ptr<Reduction> make_reduction(const at::Tensor& tensor, const std::string& name,
                                          const ReduceOptions& options, int ranks) {
  TORCH_CHECK(tensor.defined() && tensor.layout() == at::kStrided, "dtrain: '", name, "' is not a dense tensor");
  TORCH_CHECK(tensor.is_floating_point() || (at::isIntegralType(tensor.scalar_type(), false) && options.op == Op::sum),
              "dtrain: '", name, "' has type ", tensor.scalar_type(),
              "; floating types can be reduced, and integers with Op::sum");
  TORCH_CHECK(options.op != Op::adasum || (ranks & (ranks - 1)) == 0,
              "dtrain: Op::adasum needs a world size that is a power of two, not ", ranks);
  auto made = std::make_unique<Reduction>();
  made->tensor = tensor.detach();
  made->wire = wire_type(tensor, options.compression);
  if (options.op == Op::average) {
    const double predivide = options.predivide_factor.value_or(made->wire == tensor.scalar_type() ? 1 : ranks);
    TORCH_CHECK(predivide > 0, "dtrain: predivide_factor must be positive");
    made->before = 1 / predivide;
    made->after = predivide / ranks;
  }
  const auto bytes = tensor.numel() * static_cast<std::int64_t>(c10::elementSize(made->wire));
  made->request = {name,
                   c10::toString(made->wire),
                   c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true),
                   tensor.sizes().vec(),
                   bytes,
                   operation_text(options, made->before)};
  note_written(*made);
  return made;
}

std::unique_ptr<Reduction> make_zeros(const Request& request, const at::Device& device) {
  auto made = std::make_unique<Reduction>();
  for (int type = 0; type < static_cast<int>(at::ScalarType::NumOptions); ++type) {
    if (request.type == c10::toString(static_cast<at::ScalarType>(type)))
      made->wire = static_cast<at::ScalarType>(type);
  }
  const at::Device place = request.device == "cpu" ? at::Device(at::kCPU) : device;
  made->tensor = at::zeros(request.shape, at::TensorOptions(place).dtype(made->wire));
  made->request = request;
  note_written(*made);
  return made;
}

std::shared_ptr<const Handle::Arrival> Fusion::reduce(const std::vector<Reduction*>& part) {
  const at::NoGradGuard no_grad;
  const at::Device device = part.front()->tensor.device();
  c10::OptionalStreamGuard guard;
  if (!device.is_cpu()) {
    const c10::impl::VirtualGuardImpl devices(device.type());
    const auto [stream, is_new] = streams_.try_emplace(device.type(), devices.getStreamFromGlobalPool(device));
    guard.reset_stream(stream->second);
    for (const Reduction* each : part) {
      if (each->written) each->written->block(stream->second);
      each->tensor.record_stream(stream->second);  // whoever drops it gives its memory to nobody before that is done
    }
  }
  Timeline::Moment since = Clock::now();
  const bool copies = !in_place(part);
  const bool plain = copies && is_plain(part);
  const at::Tensor flat = copies ? buffer_for(part) : part.front()->tensor.view(-1);
  const auto each_with_its_place = [&](const auto& visit) {
    std::int64_t at = 0;
    for (Reduction* each : part) {
      visit(*each, flat.narrow(0, at, each->tensor.numel()).view(each->tensor.sizes()));
      at += each->tensor.numel();
    }
  };
  if (plain) {
    copy_in(flat, part);
  } else if (copies) {
    each_with_its_place([](const Reduction& each, const at::Tensor& place) {
      place.copy_(each.before == 1 ? each.tensor : each.tensor.mul(each.before));
    });
  }
  record(part, "MEMCPY_IN", since);
  collective(flat, part);
  record(part, "ALLREDUCE", since);
  if (plain) {
    copy_out(flat, part);
  } else {
    each_with_its_place([&](Reduction& each, const at::Tensor& place) {
      if (copies) each.tensor.copy_(place);
      if (each.after != 1) each.tensor.mul_(each.after);
    });
  }
  const auto arrival = std::make_shared<Handle::Arrival>();
  if (!device.is_cpu()) {
    arrival->copied_out.emplace(device.type());
    arrival->copied_out->record(current_stream(device));
  }
  record(part, "MEMCPY_OUT", since);
  return arrival;
}

at::Tensor Fusion::buffer_for(const std::vector<Reduction*>& part) {
  const Reduction& first = *part.front();
  std::int64_t needed = 0;
  for (const Reduction* each : part) needed += each->tensor.numel();
  at::Tensor& buffer = buffers_[{first.wire, first.tensor.device().type()}];
  if (!buffer.defined() || buffer.numel() < needed)
    buffer = empty_shared(group_, needed, first.tensor.options().dtype(first.wire));
  return buffer.narrow(0, 0, needed);
}

void Fusion::collective(const at::Tensor& flat, const std::vector<Reduction*>& part) {
  if (part.front()->request.op == "adasum") {
    std::vector<std::int64_t> sizes;
    for (const Reduction* each : part) sizes.push_back(each->tensor.numel());
    adasum(group_, flat, sizes);
    return;
  }
  all_reduce(group_, flat);
}

void Fusion::record(const std::vector<Reduction*>& part, const char* what, Timeline::Moment& since) const {
  if (!timeline_) return;
  const Timeline::Moment now = Clock::now();
  for (const Reduction* each : part) timeline_->add(each->request.name, what, since, now);
  since = now;
}

}  // namespace dtrain::hvd
