// Messages between two ranks, and what the flight recorder is told; see shm_backend.h.
#include <fmt/ranges.h>

#include "strategies/comm/flight_call.h"
#include "strategies/comm/own_process.h"
#include "strategies/comm/shm_backend.h"
#include "strategies/comm/shm_work.h"
#include "strategies/comm/tensors.h"

namespace dtrain {
namespace {

P2pCore::Label label_of(const at::Tensor& tensor, int tag) {
  TORCH_CHECK(tag >= 0, "dtrain: the tag ", tag, " is negative");
  return {tag, static_cast<std::uint8_t>(tensor.scalar_type()),
          fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "))};
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
  TORCH_CHECK(getSize() > 1, "dtrain: recv in a world of one rank: nobody can send");
  return receive(c10d::OpType::RECVANYSOURCE, tensors, P2pCore::kAny, tag);
}

ShmBackend::WorkPtr ShmBackend::receive(c10d::OpType type, const Tensors& tensors, int from, int tag) {
  const at::Tensor tensor = only_writable(tensors, "recv");
  const at::Tensor into = tensor.is_contiguous() ? tensor : at::empty_like(tensor, at::MemoryFormat::Contiguous);
  const std::span<std::byte> data(bytes_of(into), into.nbytes());
  const auto unstage = [tensor, into] {
    const at::NoGradGuard no_grad;
    if (!tensor.is_contiguous()) at::Tensor(tensor).copy_(into);
  };
  return message(type, tensor, {from, label_of(tensor, tag), default_timeout_, {}}, unstage,
                 [&](P2p& p2p, P2p::Call call) { return p2p.receive(data, std::move(call)); });
}

// `finish` holds the memory, and runs when the message is complete.
ShmBackend::WorkPtr ShmBackend::message(c10d::OpType type, const at::Tensor& tensor, P2p::Call call,
                                        std::function<void()> finish,
                                        const std::function<P2p::Id(P2p&, P2p::Call)>& post) {
  TORCH_CHECK(!in_forked_child(), "dtrain: a message in a process forked from rank ", getRank());
  const bool receives = type != c10d::OpType::SEND;
  auto work = c10::make_intrusive<ShmWork>(getRank(), type, receives ? Tensors{tensor} : Tensors{});
  FlightCall called = flight_call(type, tensor);
  called.message = true;
  called.peer = call.peer == P2pCore::kAny ? -1 : call.peer;
  called.tag = call.label.tag;
  auto flight = std::make_shared<FlightRing::Ticket>();
  call.done = [this, work, flight, finish = std::move(finish)](const P2p::Outcome& outcome, const auto& make_way) {
    std::exception_ptr error = outcome.error ? renamed(outcome.error, names_) : nullptr;
    try {
      if (!error) finish();
    } catch (...) {
      error = std::current_exception();
      abort();  // the message is lost
    }
    flight_.ended(*flight, !error);
    if (error) {
      note_failure();
      error = with_more(error, flight_.settle());
    }
    work->set_source(outcome.peer);
    work->complete(error, make_way);
  };
  std::shared_ptr<CommGroup> group;
  {
    const std::lock_guard lock(mutex_);
    group = stopping_ ? nullptr : group_;
    know_name();
  }
  TORCH_CHECK(group, "dtrain: a message after the session was shut down");
  *flight = flight_.queued(called, true);
  try {
    const P2p::Id id = post(group->p2p(), std::move(call));
    work->set_help([id, waiter = work.get(), ends = std::weak_ptr(group), process = process_] {
      const auto held = process == own_process() ? ends.lock() : nullptr;
      if (held) held->p2p().help(id, [waiter] { return waiter->isCompleted(); });
    });
  } catch (...) {
    flight_.ended(*flight, false);
    throw;
  }
  return work;
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
