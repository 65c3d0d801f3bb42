// Messages between two ranks, and what the flight recorder is told; see shm_backend.h.
#include "strategies/comm/flight_call.h"
#include "strategies/comm/interrupt.h"
#include "strategies/comm/own_process.h"
#include "strategies/comm/shm_backend.h"
#include "strategies/comm/shm_work.h"
#include "strategies/comm/tensors.h"

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

ShmBackend::WorkPtr ShmBackend::send(Tensors& tensors, int to, int tag) {
  const at::Tensor tensor = only(tensors, "send");
  const auto label = label_of(tensor, tag);
  const at::Tensor source = tensor.contiguous();
  const std::span<const std::byte> data(bytes_of(source), source.nbytes());
  return message(
      c10d::OpType::SEND, source, {other_rank(to, "send"), label, default_timeout_, {}}, [source] {},
      [&](P2p& p2p, P2p::Call call) { return p2p.send(data, std::move(call)); });
}

ShmBackend::WorkPtr ShmBackend::recv(Tensors& tensors, int from, int tag) {
  return receive(c10d::OpType::RECV, tensors, other_rank(from, "recv"), tag);
}

ShmBackend::WorkPtr ShmBackend::recvAnysource(Tensors& tensors, int tag) {
  check_anybody(getSize());
  return receive(c10d::OpType::RECVANYSOURCE, tensors, P2pCore::kAny, tag);
}

ShmBackend::WorkPtr ShmBackend::receive(c10d::OpType type, const Tensors& tensors, int from, int tag) {
  const at::Tensor tensor = only_writable(tensors, "recv");
  const at::Tensor into = place_for(tensor);
  const std::span<std::byte> data(bytes_of(into), into.nbytes());
  return message(
      type, tensor, {from, label_of(tensor, tag), default_timeout_, {}}, [tensor, into] { put(tensor, into); },
      [&](P2p& p2p, P2p::Call call) { return p2p.receive(data, std::move(call)); });
}

// `finish` holds the memory, and runs when the message is complete.
ShmBackend::WorkPtr ShmBackend::message(c10d::OpType type, const at::Tensor& tensor, P2p::Call call,
                                        std::function<void()> finish,
                                        const std::function<P2p::Id(P2p&, P2p::Call)>& post) {
  const std::shared_ptr<CommGroup> group = group_for_message();
  const bool receives = type != c10d::OpType::SEND;
  auto work = c10::make_intrusive<ShmWork>(getRank(), type, receives ? Tensors{tensor} : Tensors{});
  const FlightRing::Ticket flight = note_message(type, tensor, call);
  call.done = [this, work, flight, finish = std::move(finish)](const P2p::Outcome& outcome, const auto& make_way) {
    std::exception_ptr error = outcome.error;
    try {
      if (!error) finish();
    } catch (...) {
      error = std::current_exception();
      abort();  // the message is lost
    }
    error = end_message(flight, error);
    work->set_source(outcome.peer);
    work->complete(error, make_way);
  };
  try {
    const P2p::Id id = post(group->p2p(), std::move(call));
    work->set_help([id, waiter = work.get(), ends = std::weak_ptr(group), process = process_] {
      const auto held = process == own_process() ? ends.lock() : nullptr;
      if (held) held->p2p().help(id, [waiter] { return waiter->isCompleted(); });
    });
  } catch (...) {
    flight_.ended(flight, false);
    throw;
  }
  return work;
}

void ShmBackend::send_now(const at::Tensor& tensor, int to, int tag) {
  check_dense_cpu(tensor);
  const at::Tensor source = tensor.contiguous();
  const std::span<const std::byte> data(bytes_of(source), source.nbytes());
  message_now(c10d::OpType::SEND, tensor, {other_rank(to, "send"), label_of(tensor, tag), default_timeout_, {}},
              [&](P2p& p2p, const P2p::Call& call) { return p2p.send_now(data, call); });
}

int ShmBackend::recv_now(const at::Tensor& tensor, int from, int tag) {
  return receive_now(c10d::OpType::RECV, tensor, other_rank(from, "recv"), tag);
}

int ShmBackend::recv_any_now(const at::Tensor& tensor, int tag) {
  check_anybody(getSize());
  return receive_now(c10d::OpType::RECVANYSOURCE, tensor, P2pCore::kAny, tag);
}

int ShmBackend::receive_now(c10d::OpType type, const at::Tensor& tensor, int from, int tag) {
  check_writable(tensor);
  const at::Tensor into = place_for(tensor);
  const std::span<std::byte> data(bytes_of(into), into.nbytes());
  const int source = message_now(type, tensor, {from, label_of(tensor, tag), default_timeout_, {}},
                                 [&](P2p& p2p, const P2p::Call& call) { return p2p.receive_now(data, call); });
  put(tensor, into);
  return source;
}

// Whose message it was.
template <class Carry>
int ShmBackend::message_now(c10d::OpType type, const at::Tensor& tensor, const P2p::Call& call, const Carry& carry) {
  const std::shared_ptr<CommGroup> group = group_for_message();
  const FlightRing::Ticket flight = note_message(type, tensor, call);
  P2p::Outcome outcome;
  const CarryingOut here;
  try {
    outcome = carry(group->p2p(), call);
  } catch (...) {
    flight_.ended(flight, false);
    if (group->header().failure.load() != 0) note_failure();
    throw;
  }
  const std::exception_ptr error = end_message(flight, outcome.error);
  if (error) std::rethrow_exception(error);
  return outcome.peer;
}

std::shared_ptr<CommGroup> ShmBackend::group_for_message() {
  TORCH_CHECK(!in_forked_child(), "dtrain: a message in a process forked from rank ", getRank());
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(!stopping_ && group_, "dtrain: a message after the session was shut down");
  know_name();
  return group_;
}

FlightRing::Ticket ShmBackend::note_message(c10d::OpType type, const at::Tensor& tensor, const P2p::Call& call) {
  if (!flight_.on()) return {};
  FlightCall called = flight_call(type, tensor);
  called.message = true;
  called.peer = call.peer == P2pCore::kAny ? -1 : call.peer;
  called.tag = call.label.tag;
  return flight_.queued(called, true);
}

// The error as its caller is told of it, where there is one.
std::exception_ptr ShmBackend::end_message(const FlightRing::Ticket& flight, std::exception_ptr error) {
  flight_.ended(flight, !error);
  if (!error) return error;
  note_failure();
  return with_more(renamed(error, names_), flight_.settle());
}

void ShmBackend::note_failure() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
}

int ShmBackend::other_rank(int rank, const char* op) const {
  TORCH_CHECK(rank >= 0 && rank < getSize(), "dtrain: ", op, " with rank ", rank, " of ", getSize());
  TORCH_CHECK(rank != getRank(), "dtrain: ", op, " with this rank itself (", rank, "); copy the tensor instead");
  return rank;
}

// For the flight recorder. With the lock held.
FlightRing::Ticket ShmBackend::note_call(c10d::OpType type, at::TensorList tensors, const How& how, bool starts) {
  if (!flight_.on()) return {};
  know_name();
  FlightCall call = flight_call(type, tensors);
  call.root = how.root;
  call.reduction = how.reduction;
  return flight_.queued(call, starts);
}

// torch tells it after the construction.
void ShmBackend::know_name() {
  if (!flight_.has_name()) flight_.name(flight_name(*this));
}

}  // namespace dtrain
