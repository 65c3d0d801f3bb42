// Messages between two ranks; see cpu_backend.h.
#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/comm/backend/cpu_work.h"
#include "strategies/comm/backend/tensors.h"
#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/base/own_process.h"

namespace dtrain {
namespace {

P2pCore::Label label_of(const at::Tensor& tensor, int tag) {
  TORCH_CHECK(tag >= 0, "dtrain: the tag ", tag, " is negative");
  return {tag, static_cast<std::uint8_t>(tensor.scalar_type()), type_and_shape(tensor)};
}

void check_anybody(int size) { TORCH_CHECK(size > 1, "dtrain: recv in a world of one rank: nobody can send"); }

// Where a message to `tensor` is received, and from there into it.
at::Tensor place_for(const at::Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous);
}

void put(const at::Tensor& tensor, const at::Tensor& received) {
  const at::NoGradGuard no_grad;
  if (!tensor.is_contiguous()) at::Tensor(tensor).copy_(received);
}

}  // namespace

CpuBackend::WorkPtr CpuBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor tensor = only(tensors, "send");
  const auto label = label_of(tensor, tag);
  const at::Tensor source = tensor.contiguous();
  const std::span<const std::byte> data(bytes_of(source), source.nbytes());
  return message(
      c10d::OpType::SEND, source, {other_rank(to, "send"), label, default_timeout(), {}}, [source] {},
      [&](P2p& p2p, P2p::Request request) { return p2p.send(data, std::move(request)); });
}

CpuBackend::WorkPtr CpuBackend::recv(Tensors& tensors, int from, int tag) {
  return receive(c10d::OpType::RECV, tensors, other_rank(from, "recv"), tag);
}

CpuBackend::WorkPtr CpuBackend::recvAnysource(Tensors& tensors, int tag) {
  check_anybody(getSize());
  return receive(c10d::OpType::RECVANYSOURCE, tensors, P2pCore::kAny, tag);
}

CpuBackend::WorkPtr CpuBackend::receive(c10d::OpType type, const Tensors& tensors, int from, int tag) {
  const at::Tensor tensor = only_writable(tensors, "recv");
  const at::Tensor into = place_for(tensor);
  const std::span<std::byte> data(bytes_of(into), into.nbytes());
  return message(
      type, tensor, {from, label_of(tensor, tag), default_timeout(), {}}, [tensor, into] { put(tensor, into); },
      [&](P2p& p2p, P2p::Request request) { return p2p.receive(data, std::move(request)); });
}

// `finish` holds the memory, and runs when the message is complete.
CpuBackend::WorkPtr CpuBackend::message(c10d::OpType type, const at::Tensor& tensor, P2p::Request request,
                                        std::function<void()> finish,
                                        const std::function<P2p::Id(P2p&, P2p::Request)>& post) {
  const std::shared_ptr<CommGroup> group = group_for_message();
  const bool receives = type != c10d::OpType::SEND;
  auto work = c10::make_intrusive<CpuWork>(getRank(), type, receives ? Tensors{tensor} : Tensors{},
                                           getSequenceNumberForGroup(), request.timeout);
  if (times_) work->begin_timed();
  const FlightNotes::Ticket flight = flight_->message(type, tensor, request.peer, request.label.tag);
  request.done = [this, work, flight, finish = std::move(finish)](const P2p::Outcome& outcome, const auto& make_way) {
    std::exception_ptr error = outcome.error;
    try {
      if (!error) finish();
    } catch (...) {
      error = std::current_exception();
      abort();  // the message is lost
    }
    error = ended(flight, error);
    work->set_source(outcome.peer);
    work->complete(error, make_way);
  };
  try {
    const P2p::Id id = post(group->p2p(), std::move(request));
    work->set_help([id, waiter = work.get(), ends = std::weak_ptr(group), process = process_] {
      const auto held = process == own_process() ? ends.lock() : nullptr;
      if (held) held->p2p().help(id, [waiter] { return waiter->isCompleted(); });
    });
  } catch (...) {
    flight_->ended(flight, false);
    throw;
  }
  return work;
}

void CpuBackend::send_now(const at::Tensor& tensor, int to, int tag) {
  check_dense_cpu(tensor);
  const at::Tensor source = tensor.contiguous();
  const std::span<const std::byte> data(bytes_of(source), source.nbytes());
  message_now(c10d::OpType::SEND, tensor, {other_rank(to, "send"), label_of(tensor, tag), default_timeout(), {}},
              [&](P2p& p2p, const P2p::Request& request) { return p2p.send_now(data, request); });
}

int CpuBackend::recv_now(const at::Tensor& tensor, int from, int tag) {
  return receive_now(c10d::OpType::RECV, tensor, other_rank(from, "recv"), tag);
}

int CpuBackend::recv_any_now(const at::Tensor& tensor, int tag) {
  check_anybody(getSize());
  return receive_now(c10d::OpType::RECVANYSOURCE, tensor, P2pCore::kAny, tag);
}

int CpuBackend::receive_now(c10d::OpType type, const at::Tensor& tensor, int from, int tag) {
  check_writable(tensor);
  const at::Tensor into = place_for(tensor);
  const std::span<std::byte> data(bytes_of(into), into.nbytes());
  const int source = message_now(type, tensor, {from, label_of(tensor, tag), default_timeout(), {}},
                                 [&](P2p& p2p, const P2p::Request& request) { return p2p.receive_now(data, request); });
  put(tensor, into);
  return source;
}

// Whose message it was.
template <class Carry>
int CpuBackend::message_now(c10d::OpType type, const at::Tensor& tensor, const P2p::Request& request,
                            const Carry& carry) {
  const std::shared_ptr<CommGroup> group = group_for_message();
  const FlightNotes::Ticket flight = flight_->message(type, tensor, request.peer, request.label.tag);
  P2p::Outcome outcome;
  const CarryingOut here;
  try {
    outcome = carry(group->p2p(), request);
  } catch (...) {
    flight_->ended(flight, false);
    if (group->header().failure.load() != 0) note_failure();
    throw;
  }
  const std::exception_ptr error = ended(flight, outcome.error);
  if (error) std::rethrow_exception(error);
  return outcome.peer;
}

std::shared_ptr<CommGroup> CpuBackend::group_for_message() {
  TORCH_CHECK(!in_forked_child(), "dtrain: messages do not work in a process forked from rank ", getRank());
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!queue_->stops(), "dtrain: a message was sent or received after the session was shut down");
  check_formed();
  flight_->know_name(*this);
  return group_;
}

int CpuBackend::other_rank(int rank, const char* op) const {
  TORCH_CHECK(rank >= 0 && rank < getSize(), "dtrain: ", op, " names rank ", rank, ", but the ranks are 0 to ",
              getSize() - 1);
  TORCH_CHECK(rank != getRank(), "dtrain: ", op, " with this rank itself (", rank, "); copy the tensor instead");
  return rank;
}

}  // namespace dtrain
