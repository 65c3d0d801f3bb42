// See flight_notes.h.
#include "strategies/comm/backend/flight_notes.h"

#include <fmt/format.h>

#include <random>

#include "dtrain/errors.h"
#include "strategies/comm/backend/tensors.h"
#include "strategies/comm/messages/p2p_core.h"

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

std::string flight_key(const c10::intrusive_ptr<c10d::Store>& store) { return store->get_to_str("flight"); }

// What people call the group: torch's description, where there is one, and its name.
std::string flight_name(const c10d::Backend& backend) {
  const std::string &name = backend.getGroupUid(), &about = backend.getGroupDesc();
  if (about.empty() || about == "undefined" || about == name) return name;
  return fmt::format("{} ({})", about, name);
}

// A CollectiveError with more in its line; any other as it is.
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

}  // namespace

FlightNotes::FlightNotes(const c10::intrusive_ptr<c10d::Store>& keys, int rank, int size,
                         const std::shared_ptr<CommGroup>& group)
    : log_(flight_key(keys), rank, size) {
  log_.watch(group);
}

void FlightNotes::know_name(const c10d::Backend& backend) {
  if (log_.on() && !log_.has_name()) log_.name(flight_name(backend));
}

FlightNotes::Ticket FlightNotes::collective(c10d::OpType type, at::TensorList tensors, int root, const char* reduction,
                                            bool starts) {
  if (!log_.on()) return {};
  FlightCall call = flight_call(type, tensors);
  call.origin = CallOrigin::current();
  call.root = root;
  call.reduction = reduction;
  return log_.queued(call, starts);
}

FlightNotes::Ticket FlightNotes::message(c10d::OpType type, const at::Tensor& tensor, int peer, int tag) {
  if (!log_.on()) return {};
  FlightCall call = flight_call(type, tensor);
  call.message = true;
  call.peer = peer == P2pCore::kAny ? -1 : peer;
  call.tag = tag;
  return log_.queued(call, true);
}

std::exception_ptr FlightNotes::explained(const std::exception_ptr& error) { return with_more(error, log_.settle()); }

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

}  // namespace dtrain
