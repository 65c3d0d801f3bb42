// See shm_p2p.h.
#include "strategies/comm/shm_p2p.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "strategies/comm/join_all.h"

namespace dtrain {
namespace {

// How long the thread waits for callers to pass.
constexpr std::chrono::milliseconds kTurn{1};

P2pCore::Limits limits_of(const ShmSegment& segment) {
  P2pCore::Limits limits;
  const int one = segment.members().front();
  limits.whole_bytes = ShmRing(segment.pair(one, one), segment.ring(one, one), segment.ring_bytes()).whole_bytes();
  limits.part_bytes = segment.ring_bytes() / 4;
  return limits;
}

}  // namespace

std::string ShmP2p::Pending::name() const {
  const std::string peer = call.peer == P2pCore::kAny ? "any rank" : fmt::format("rank {}", call.peer);
  return fmt::format("{} of {} {} {} with tag {}", sends ? "send" : "recv", call.label.text, sends ? "to" : "from",
                     peer, call.label.tag);
}

ShmP2p::ShmP2p(const ShmSegment& segment, const PeerWatch& watch, const ShmWait& wait, int rank,
               std::chrono::microseconds spin)
    : segment_(segment),
      watch_(watch),
      wait_(wait),
      rank_(rank),
      spin_(spin),
      core_(static_cast<int>(segment.header().ranks), limits_of(segment)) {}

ShmP2p::~ShmP2p() { end(); }

int ShmP2p::some_other() const {
  const std::vector<int>& members = segment_.members();
  return members.front() == rank_ && members.size() > 1 ? members[1] : members.front();
}

ShmRing ShmP2p::ring(int from, int to) const {
  return {segment_.pair(from, to), segment_.ring(from, to), segment_.ring_bytes()};
}

void ShmP2p::send(std::span<const std::byte> data, Call call) {
  const auto deadline = ShmWait::after(call.timeout);
  const int to = call.peer;
  const P2pCore::Label label = call.label;
  post({true, std::move(call), deadline}, [&](Id id) { core_.send(id, to, label, data); });
}

void ShmP2p::receive(std::span<std::byte> into, Call call) {
  const auto deadline = ShmWait::after(call.timeout);
  const int from = call.peer;
  const P2pCore::Label label = call.label;
  post({false, std::move(call), deadline}, [&](Id id) { core_.receive(id, from, label, into); });
}

void ShmP2p::post(Pending pending, const std::function<void(Id)>& tell_core) {
  std::unique_lock lock = lock_as_caller();
  const auto deadline = pending.deadline;
  const bool room = signals_.room.wait_until(lock, deadline, [&] { return pending_.size() < kMaxPending || ended_; });
  if (ended_) throw std::runtime_error("dtrain: " + pending.name() + " after the group was shut down");
  if (!room) throw std::runtime_error(fmt::format("dtrain: {} sends and receives are waiting already", kMaxPending));
  if (threads_.empty()) start_thread();
  const Id id = ++last_;
  const Pending& known = pending_.emplace(id, std::move(pending)).first->second;
  if (wait_.failed()) {
    finish(id, {failure_of(known), known.call.peer});
  } else {
    tell_core(id);
    bool more = false;
    for (const int r : segment_.members()) more |= core_.has_next(r) && write_to(r) && core_.has_next(r);
    collect();
    if (more) ring_bell(rank_);
  }
  wake_for(deadline);
  if (ended_operations_.size() == 1 && ended_operations_.front().id == id) {
    const Ended own = std::move(ended_operations_.front());
    ended_operations_.pop_front();
    lock.unlock();
    own.done(own.outcome, [] {});  // nobody has seen the operation yet: nothing long hangs on it
  } else if (!ended_operations_.empty()) {
    ring_bell(rank_);
  }
}

// Wake the thread where it sleeps longer than an operation with this deadline allows.
void ShmP2p::wake_for(Clock::time_point deadline) {
  quiet_ = false;
  next_look_ = std::min(next_look_, deadline);
  if (std::min(deadline, Clock::now() + kLookAround) < wakes_at_) ring_bell(rank_);
}

// A mutex is not fair: a thread that moves a large message would take it again and again.
std::unique_lock<std::mutex> ShmP2p::lock_as_caller() {
  callers_.fetch_add(1);
  std::unique_lock lock(mutex_);
  if (callers_.fetch_sub(1) == 1) signals_.turn.notify_one();
  return lock;
}

void ShmP2p::let_callers_in(std::unique_lock<std::mutex>& lock) {
  if (callers_.load() > 0) signals_.turn.wait_for(lock, kTurn, [this] { return callers_.load() == 0; });
}

void ShmP2p::end() {
  std::unique_lock lock(mutex_);
  ended_ = broken_ = true;
  while (!pending_.empty()) {
    const auto& [id, pending] = *pending_.begin();
    auto error = failure_of(pending);
    if (!error) {
      error = std::make_exception_ptr(describe({FailureKind::aborted, rank_}, segment_.rank(rank_).pid, pending.name(),
                                               "the group was shut down with this pending"));
    }
    finish(id, {error, pending.call.peer});
  }
  signals_.room.notify_all();
  signals_.role.notify_all();
  ring_bell(rank_);
  join_all(threads_, lock);
}

void ShmP2p::finish(Id id, const Outcome& outcome) {
  const auto found = pending_.find(id);
  ended_operations_.push_back({id, std::move(found->second.call.done), outcome});
  pending_.erase(found);
  signals_.room.notify_one();
}

std::exception_ptr ShmP2p::failure_of(const Pending& pending) const {
  try {
    wait_.check(pending.name());
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void ShmP2p::fail(const Failure& failure, Id id, const std::string& detail) {
  const Pending& pending = pending_.at(id);
  try {
    wait_.fail(failure, pending.name(), detail);
  } catch (...) {
    finish(id, {std::current_exception(), pending.call.peer});
  }
  fail_rest();
}

// The group has failed: from now on nobody's memory is touched.
void ShmP2p::fail_rest() {
  broken_ = true;
  while (!pending_.empty()) {
    const auto& [id, pending] = *pending_.begin();
    finish(id, {failure_of(pending), pending.call.peer});
  }
}

}  // namespace dtrain
