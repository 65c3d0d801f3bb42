// See p2p.h.
#include "strategies/comm/p2p.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "strategies/comm/interrupt.h"
#include "strategies/comm/join_all.h"
#include "strategies/comm/p2p_ring_link.h"
#include "strategies/comm/p2p_tcp_link.h"

namespace dtrain {
namespace {

// How long the thread waits for callers to pass.
constexpr std::chrono::milliseconds kTurn{1};
// How long the end waits for what was sent to reach other hosts, and how often, in milliseconds, it asks.
constexpr std::chrono::seconds kLastWords{2};
constexpr int kAcknowledged = 5;

P2pCore::Limits limits_of(const ShmSegment& segment) {
  P2pCore::Limits limits;
  const int one = segment.members().front();
  limits.whole_bytes = ShmRing(segment.pair(one, one), segment.ring(one, one), segment.ring_bytes()).whole_bytes();
  limits.part_bytes = segment.ring_bytes() / 4;
  return limits;
}

}  // namespace

std::string P2p::Pending::name() const {
  const std::string peer = call.peer == P2pCore::kAny ? "any rank" : fmt::format("rank {}", call.peer);
  return fmt::format("{} of {} {} {} with tag {}", sends ? "send" : "recv", call.label.text, sends ? "to" : "from",
                     peer, call.label.tag);
}

P2p::P2p(const ShmSegment& segment, const PeerWatch& watch, const ShmWait& wait, int rank,
         std::chrono::microseconds spin)
    : segment_(segment),
      wait_(wait),
      rank_(rank),
      spin_(spin),
      bell_(segment, rank, spin.count() == 0),
      core_(static_cast<int>(segment.header().ranks), limits_of(segment)) {
  for (const int member : segment.members())
    if (member != rank) links_.emplace(member, std::make_unique<P2pRingLink>(segment, watch, bell_, rank, member));
}

P2p::~P2p() { end(); }

void P2p::reach_hosts(TcpLinks& links, const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    core_.set_limits(rank, kLimitsBetweenHosts);
    links_.emplace(rank, std::make_unique<P2pTcpLink>(links, wait_, rank));
  }
  elsewhere_ = &links;
  // At once: what comes is read whether anything is called for or not, or a rank that leaves would wait for that.
  const std::lock_guard lock(mutex_);
  start_thread();
}

P2p::Id P2p::send(std::span<const std::byte> data, Call call) {
  const auto deadline = ShmWait::after(call.timeout);
  return post({true, std::move(call), deadline, data, {}});
}

P2p::Id P2p::receive(std::span<std::byte> into, Call call) {
  const auto deadline = ShmWait::after(call.timeout);
  return post({false, std::move(call), deadline, {}, into});
}

P2p::Outcome P2p::send_now(std::span<const std::byte> data, const Call& call) {
  std::unique_lock lock = lock_as_caller();
  if (send_at_once(data, call)) return {nullptr, call.peer};
  return carry_out(lock, {true, call, ShmWait::after(call.timeout), data, {}}, true);
}

P2p::Outcome P2p::receive_now(std::span<std::byte> into, const Call& call) {
  std::unique_lock lock = lock_as_caller();
  const Soon soon = receive_soon(lock, into, call);
  if (soon == Soon::came) return {nullptr, call.peer};
  Pending pending{false, call, ShmWait::after(call.timeout), {}, into};
  if (soon != Soon::not_tried && ended_) return {end_of(pending), call.peer};
  return carry_out(lock, std::move(pending), soon != Soon::in_vain);
}

P2p::Id P2p::post(Pending pending) {
  std::unique_lock lock = lock_as_caller();
  const Id id = add(lock, std::move(pending));
  const auto own = ended_operations_.size() == 1 ? take_ended(id) : std::nullopt;
  if (own) {
    lock.unlock();
    own->done(own->outcome, [] {});  // nobody has seen the operation yet: nothing long hangs on it
  } else if (!ended_operations_.empty()) {
    ring_own();
  }
  return id;
}

// Of a message that takes one step of a group that is well: it needs no entry in any list. Null: it has to have one.
P2pLink* P2p::link_for_one_step(int peer) {
  if (broken_ || ended_ || threads_.empty() || wait_.failed()) return nullptr;
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second.get();
}

bool P2p::send_at_once(std::span<const std::byte> data, const Call& call) {
  P2pLink* const link = link_for_one_step(call.peer);
  return link != nullptr && link->send_whole(core_, ++last_, call.label, data);
}

// Nobody looks at the bells: that would take the line on which they are from one core to the other and back.
P2p::Soon P2p::receive_soon(std::unique_lock<std::mutex>& lock, std::span<std::byte> into, const Call& call) {
  P2pLink* const link = link_for_one_step(call.peer);
  const bool alone = pending_.empty() && !helped_ && ended_operations_.empty();
  if (link == nullptr || !alone || !link->comes_at_once(into.size())) return Soon::not_tried;
  core_.expect(call.peer, call.label, into);
  settled_ = core_.is_settled();
  ++helpers_;
  look_at(*link, lock);
  --helpers_;
  if (ended_) signals_.role.notify_all();
  if (core_.stop_expecting()) return Soon::came;
  return settled_ ? Soon::has_to_be_asked_for : Soon::in_vain;
}

P2p::Outcome P2p::carry_out(std::unique_lock<std::mutex>& lock, Pending pending, bool helps) {
  Awaited awaited;
  pending.awaited = &awaited;
  const auto over = [&awaited] { return awaited.over.load(); };
  const Id id = add(lock, std::move(pending));
  if (!ended_operations_.empty()) ring_own();
  if (over()) return awaited.outcome;
  ++helpers_;
  if (helps && may_help(id)) help_along(lock, id, over);
  if (!helps) stop_helping({}, true);
  std::exception_ptr interrupted;
  while (!signals_.over.wait_for(lock, kLookAround, over)) {  // the thread sees to the deadline
    lock.unlock();
    try {
      check_interrupt();
    } catch (...) {
      interrupted = std::current_exception();
    }
    lock.lock();
    if (!interrupted || over()) continue;
    wait_.record({FailureKind::aborted, rank_});
    fail_rest();
  }
  --helpers_;
  signals_.role.notify_all();  // for end()
  if (interrupted) std::rethrow_exception(interrupted);
  return awaited.outcome;
}

P2p::Id P2p::add(std::unique_lock<std::mutex>& lock, Pending pending) {
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
    if (known.sends)
      core_.send(id, known.call.peer, known.call.label, known.data);
    else
      core_.receive(id, known.call.peer, known.call.label, known.into);
    bool more = false;
    for (const auto& [rank, link] : links_)
      more |= core_.has_next(rank) && link->send(core_) && (core_.has_next(rank) || !link->is_clear());
    collect();
    if (more) ring_own();
  }
  wake_for(deadline);
  return id;
}

// For this thread to call its done().
std::optional<P2p::Ended> P2p::take_ended(Id id) {
  const auto same = [id](const Ended& ended) { return ended.id == id; };
  const auto found = std::find_if(ended_operations_.begin(), ended_operations_.end(), same);
  if (found == ended_operations_.end()) return std::nullopt;
  Ended own = std::move(*found);
  ended_operations_.erase(found);
  return own;
}

// Wake the thread where it sleeps longer than an operation with this deadline allows.
void P2p::wake_for(Clock::time_point deadline) {
  quiet_ = false;
  next_look_ = std::min(next_look_, deadline);
  if (wakes_at_ == Clock::time_point::min()) return;
  if (std::min(deadline, Clock::now() + kLookAround) >= wakes_at_) return;
  if (helped_) bell_.resume(bell_.rung());  // who helps may not do so until then
  ring_own();
}

// A mutex is not fair: a thread that moves a large message would take it again and again.
std::unique_lock<std::mutex> P2p::lock_as_caller() {
  callers_.fetch_add(1);
  std::unique_lock lock(mutex_);
  if (callers_.fetch_sub(1) == 1) signals_.turn.notify_one();
  return lock;
}

void P2p::let_callers_in(std::unique_lock<std::mutex>& lock) {
  if (callers_.load() > 0) signals_.turn.wait_for(lock, kTurn, [this] { return callers_.load() == 0; });
}

void P2p::end() {
  std::unique_lock lock(mutex_);
  ended_ = broken_ = true;
  while (!pending_.empty()) {
    const auto& [id, pending] = *pending_.begin();
    finish(id, {end_of(pending), pending.call.peer});
  }
  for (const auto& [rank, link] : links_) link->cease();
  signals_.room.notify_all();
  signals_.role.notify_all();
  ring_own();
  join_all(threads_, lock);
  signals_.role.wait(lock, [this] { return helpers_ == 0; });
  if (elsewhere_ != nullptr && !wait_.told()) take_leave();
  elsewhere_ = nullptr;
}

// What was sent is to arrive, although this process may end now.
void P2p::take_leave() {
  const auto deadline = Clock::now() + kLastWords;
  const auto arrived = [](const auto& link) { return link.second->has_arrived(); };
  while (!std::all_of(links_.begin(), links_.end(), arrived) && Clock::now() < deadline) {
    std::vector<pollfd> polls = interests();
    ::poll(polls.data(), polls.size(), kAcknowledged);
  }
}

void P2p::finish(Id id, const Outcome& outcome) {
  const auto found = pending_.find(id);
  if (Awaited* awaited = found->second.awaited) {
    awaited->outcome = outcome;
    awaited->over = true;
    signals_.over.notify_all();
  } else {
    ended_operations_.push_back({id, std::move(found->second.call.done), outcome});
  }
  pending_.erase(found);
  signals_.room.notify_one();
}

std::exception_ptr P2p::failure_of(const Pending& pending) const {
  try {
    wait_.check(pending.name());
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void P2p::fail(const Failure& failure, Id id, const std::string& detail) {
  const Pending& pending = pending_.at(id);
  try {
    wait_.fail(failure, pending.name(), detail);
  } catch (...) {
    finish(id, {std::current_exception(), pending.call.peer});
  }
  fail_rest();
}

// What it ends with where the group does.
std::exception_ptr P2p::end_of(const Pending& pending) const {
  if (auto failure = failure_of(pending)) return failure;
  return std::make_exception_ptr(describe({FailureKind::aborted, rank_}, segment_.rank(rank_).pid, pending.name(),
                                          "the group was shut down with this pending"));
}

// The group has failed: from now on nobody's memory is touched.
void P2p::fail_rest() {
  broken_ = true;
  for (const auto& [rank, link] : links_) link->cease();
  if (elsewhere_ != nullptr) elsewhere_->tell();
  while (!pending_.empty()) {
    const auto& [id, pending] = *pending_.begin();
    finish(id, {failure_of(pending), pending.call.peer});
  }
}

}  // namespace dtrain
