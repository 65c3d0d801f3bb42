// See flight_call.h.
#include "strategies/comm/flight_call.h"

#include <fmt/format.h>

#include <random>

#include "dtrain/errors.h"
#include "strategies/comm/tensors.h"

namespace dtrain {
namespace {

const char* name_of(c10d::OpType type) {
  switch (type) {
    case c10d::OpType::BROADCAST:
      return "broadcast";
    case c10d::OpType::ALLREDUCE:
      return "all_reduce";
    case c10d::OpType::ALLREDUCE_COALESCED:
      return "all_reduce_coalesced";
    case c10d::OpType::REDUCE:
      return "reduce";
    case c10d::OpType::ALLGATHER:
      return "all_gather";
    case c10d::OpType::ALLGATHER_COALESCED:
      return "all_gather_coalesced";
    case c10d::OpType::_ALLGATHER_BASE:
      return "all_gather_single";
    case c10d::OpType::GATHER:
      return "gather";
    case c10d::OpType::SCATTER:
      return "scatter";
    case c10d::OpType::REDUCE_SCATTER:
      return "reduce_scatter";
    case c10d::OpType::_REDUCE_SCATTER_BASE:
      return "reduce_scatter_single";
    case c10d::OpType::ALLTOALL:
      return "all_to_all";
    case c10d::OpType::ALLTOALL_BASE:
      return "all_to_all_single";
    case c10d::OpType::BARRIER:
      return "barrier";
    case c10d::OpType::SEND:
      return "send";
    case c10d::OpType::RECV:
    case c10d::OpType::RECVANYSOURCE:
      return "recv";
    default:
      return "another operation";
  }
}

}  // namespace

FlightCall flight_call(c10d::OpType type, at::TensorList tensors) {
  FlightCall call;
  call.op = name_of(type);
  if (!tensors.empty()) {
    const at::ScalarType scalar = tensors.front().scalar_type();
    const auto element = element_of(scalar);
    call.type = element ? name_of(*element) : c10::toString(scalar);
  }
  for (const at::Tensor& tensor : tensors) call.add({tensor.sizes().data(), tensor.sizes().size()});
  return call;
}

std::string call_text(c10d::OpType type, at::TensorList tensors, const char* reduction, int root) {
  std::string text = name_of(type);
  if (reduction != nullptr) text += fmt::format(" {}", reduction);
  for (const at::Tensor& tensor : tensors)
    text += (&tensor == tensors.begin() ? " of " : ", ") + type_and_shape(tensor);
  if (root >= 0) text += fmt::format(", root rank {}", root);
  return text;
}

const char* flight_reduction(const c10d::ReduceOp& op, at::TensorList tensors) {
  return tensors.empty() ? nullptr : name_of(reduction_of(op, tensors.front()));
}

void put_flight_key(const c10::intrusive_ptr<c10d::Store>& store) {
  std::random_device random;
  store->set("flight", fmt::format("{:08x}{:08x}", random(), random()));
}

std::string flight_key(const c10::intrusive_ptr<c10d::Store>& store) { return store->get_to_str("flight"); }

std::string flight_name(const c10d::Backend& backend) {
  const std::string &name = backend.getGroupUid(), &about = backend.getGroupDesc();
  if (about.empty() || about == "undefined" || about == name) return name;
  return fmt::format("{} ({})", about, name);
}

std::exception_ptr with_more(const std::exception_ptr& error, const std::string& more) {
  if (more.empty()) return error;
  try {
    std::rethrow_exception(error);
  } catch (const CollectiveError& known) {
    return std::make_exception_ptr(CollectiveError(known.kind(), known.rank(), known.what() + ("; " + more)));
  } catch (...) {
    return error;
  }
}

}  // namespace dtrain
