// See p2p.h.
#include "strategies/comm/messages/p2p.h"

#include <fmt/format.h>

#include <stdexcept>

#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/messages/p2p_ring_link.h"
#include "strategies/comm/messages/p2p_tcp_link.h"

namespace dtrain {
namespace {

// How long the end waits for what was sent to reach other hosts.
constexpr std::chrono::seconds kLastWords{2};
// How often who helps moves something before it looks at the clock.
constexpr int kStepsBetweenClocks = 16;
// And how often who expects a message looks before that.
constexpr int kProgressLooks = 64;

P2pCore::Limits limits_of(const ShmSegment& segment) {
  P2pCore::Limits limits;
  const int one = segment.members().front();
  limits.whole_bytes = ShmRing(segment.pair(one, one), segment.ring(one, one), segment.ring_bytes()).whole_bytes();
  limits.part_bytes = segment.ring_bytes() / 4;
  return limits;
}

}  // namespace

P2p::P2p(const ShmSegment& segment, const PeerWatch& watch, const ShmWait& wait, int rank,
         std::chrono::microseconds spin)
    : segment_(segment),
      wait_(wait),
      rank_(rank),
      spin_(spin),
      bell_(segment, rank, spin.count() == 0),
      core_(static_cast<int>(segment.header().ranks), limits_of(segment)),
      threads_(callers_.mutex(), "dtrain-p2p", [this] { take_turns(); }) {
  for (const int member : segment.members())
    if (member != rank) links_.add(member, std::make_unique<P2pRingLink>(segment, watch, bell_, rank, member));
}

P2p::~P2p() { end(); }

void P2p::reach_hosts(TcpLinks& links, const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    core_.set_limits(rank, kLimitsBetweenHosts);
    links_.add(rank, std::make_unique<P2pTcpLink>(links, wait_, rank));
  }
  links_.reach_hosts(links);
  // At once: what comes is read whether anything is called for or not, or a rank that leaves would wait for that.
  const std::lock_guard lock(callers_.mutex());
  threads_.start();
}

P2p::Id P2p::send(std::span<const std::byte> data, Request request) {
  const auto deadline = ShmWait::after(request.timeout);
  return post({true, std::move(request), deadline, data, {}});
}

P2p::Id P2p::receive(std::span<std::byte> into, Request request) {
  const auto deadline = ShmWait::after(request.timeout);
  return post({false, std::move(request), deadline, {}, into});
}

P2p::Outcome P2p::send_now(std::span<const std::byte> data, const Request& request) {
  Lock lock = callers_.lock();
  if (send_at_once(data, request)) return {nullptr, request.peer};
  return carry_out(lock, {true, request, ShmWait::after(request.timeout), data, {}}, true);
}

P2p::Outcome P2p::receive_now(std::span<std::byte> into, const Request& request) {
  Lock lock = callers_.lock();
  const Soon soon = receive_soon(lock, into, request);
  if (soon == Soon::came) return {nullptr, request.peer};
  Pending pending{false, request, ShmWait::after(request.timeout), {}, into};
  if (soon != Soon::not_tried && operations_.is_closed()) return {end_of(pending), request.peer};
  return carry_out(lock, std::move(pending), soon != Soon::in_vain);
}

P2p::Id P2p::post(Pending pending) {
  Lock lock = callers_.lock();
  const Id id = add(lock, std::move(pending));
  if (const auto own = operations_.take_only(id)) {
    lock.unlock();
    own->done(own->outcome, [] {});  // nobody has seen the operation yet: nothing long hangs on it
  } else if (operations_.has_ended()) {
    ring_own();
  }
  return id;
}

P2p::Id P2p::add(Lock& lock, Pending pending) {
  const auto deadline = pending.deadline;
  const bool room = operations_.wait_for_room(lock, deadline);
  if (operations_.is_closed()) throw std::runtime_error("dtrain: " + pending.name() + " after the group was shut down");
  if (!room)
    throw std::runtime_error(
        fmt::format("dtrain: {} sends and receives are waiting already", P2pOperations::kMaxPending));
  if (!threads_.have_started()) threads_.start();
  const Id id = operations_.new_id();
  const Pending& known = operations_.add(id, std::move(pending));
  if (wait_.failed()) {
    operations_.finish(id, {failure_of(known), known.request.peer});
  } else {
    if (known.sends)
      core_.send(id, known.request.peer, known.request.label, known.data);
    else
      core_.receive(id, known.request.peer, known.request.label, known.into);
    bool more = false;
    for (const auto& [rank, link] : links_)
      more |= core_.has_next(rank) && link->send(core_) && (core_.has_next(rank) || !link->is_clear());
    collect();
    if (more) ring_own();
  }
  wake_for(deadline);
  return id;
}

// Wake the thread where it sleeps longer than an operation with this deadline allows.
void P2p::wake_for(Clock::time_point deadline) {
  helper_.be_busy();
  helper_.look_by(deadline);
  if (!helper_.sleeps() || !helper_.oversleeps(deadline, Clock::now())) return;
  if (helper_.helps()) bell_.resume(bell_.rung());  // who helps may not do so until then
  ring_own();
}

P2p::Outcome P2p::carry_out(Lock& lock, Pending pending, bool helps) {
  P2pOperations::Awaited awaited;
  pending.awaited = &awaited;
  const Id id = add(lock, std::move(pending));
  if (operations_.has_ended()) ring_own();
  if (awaited.over) return awaited.outcome;
  const P2pCallers::Within within(callers_);
  if (helps && may_help(id)) help_along(lock, id, [&awaited] { return awaited.over.load(); });
  if (!helps) stop_helping({}, true);
  await(lock, awaited);
  return awaited.outcome;
}

// The thread ends the operation, also when its time is over. What the interrupt check throws ends the group.
void P2p::await(Lock& lock, const P2pOperations::Awaited& awaited) {
  std::exception_ptr interrupted;
  while (!operations_.await(lock, awaited, kLookAround)) {
    lock.unlock();
    try {
      check_interrupt();
    } catch (...) {
      interrupted = std::current_exception();
    }
    lock.lock();
    if (!interrupted || awaited.over) continue;
    wait_.record({FailureKind::aborted, rank_});
    fail_rest();
  }
  if (interrupted) std::rethrow_exception(interrupted);
}

// The link of a message that takes one step, in a group that is well: the message needs no entry in any list. Null: it
// has to have one.
P2pLink* P2p::link_for_one_step(int peer) {
  if (broken_ || !threads_.have_started() || wait_.failed()) return nullptr;
  return links_.find(peer);
}

bool P2p::send_at_once(std::span<const std::byte> data, const Request& request) {
  P2pLink* const link = link_for_one_step(request.peer);
  return link != nullptr && link->send_whole(core_, operations_.new_id(), request.label, data);
}

// Nobody looks at the bells: that would take the line on which they are from one core to the other and back.
P2p::Soon P2p::receive_soon(Lock& lock, std::span<std::byte> into, const Request& request) {
  P2pLink* const link = link_for_one_step(request.peer);
  const bool alone = operations_.is_empty() && !helper_.helps();
  if (link == nullptr || !alone || !link->comes_at_once(into.size())) return Soon::not_tried;
  core_.expect(request.peer, request.label, into);
  settled_ = core_.is_settled();
  const P2pCallers::Within within(callers_);
  look_at(*link, lock);
  if (core_.stop_expecting()) return Soon::came;
  return settled_ ? Soon::has_to_be_asked_for : Soon::in_vain;
}

void P2p::help(Id id, const std::function<bool()>& over) {
  Lock lock = callers_.lock();
  std::optional<Ended> own = operations_.take(id);
  if (!own && !may_help(id)) return;
  const P2pCallers::Within within(callers_);
  if (!own) own = help_along(lock, id, over);
  if (!own) return;
  lock.unlock();
  own->done(own->outcome, [] {});  // the thread goes on meanwhile
  lock.lock();
}

// Move what comes on all links, until over() or another operation has ended. The operation, if it has ended: its done()
// is to be called.
std::optional<P2p::Ended> P2p::help_along(Lock& lock, Id id, const std::function<bool()>& over) {
  std::optional<Ended> own;
  std::vector<pollfd> polls;
  std::uint32_t seen = 0;
  bool moved = true;
  bell_.relieve();
  help_until(
      lock, [&] { return own || operations_.has_ended() || over(); },
      [&] {
        seen = bell_.rung();
        moved = or_fail([this] { return move(nullptr); });
        own = operations_.take(id);
        if (!moved) polls = links_.interests();
        return moved;
      },
      [&](Patience& patience) { return bell_.spin(seen, patience, polls, over); });
  stop_helping(seen, moved);
  return own;
}

// Move what comes on this link, until what is expected of it is settled, or this rank has something else to do.
void P2p::look_at(P2pLink& link, Lock& lock) {
  if (!helper_.naps()) bell_.relieve();
  help_until(
      lock, [this] { return settled_ || !operations_.is_empty() || broken_; },
      [&] { return or_fail([&] { return move(&link); }); },
      [&](Patience& patience) {
        return look_for(patience, kProgressLooks, spin_.count() == 0, [&] { return settled_ || link.has_some(); });
      });
  stop_helping({}, false);
}

// In place of the thread: move_some(), and where nothing moves look(patience) without the mutex, until is_over(), or
// for as long as the thread looks before it sleeps.
template <class IsOver, class Move, class Look>
void P2p::help_until(Lock& lock, IsOver is_over, Move move_some, Look look) {
  Patience patience(spin_.count() > 0 ? spin_ : kYielding);
  int steps = 0;
  helper_.begin();
  for (bool patient = true; patient && !is_over();) {
    const bool moved = move_some();
    if (++steps % kStepsBetweenClocks == 0 && patience.is_over()) break;
    if (moved) continue;
    lock.unlock();
    patient = look(patience);
    lock = callers_.lock();
  }
  helper_.end();
}

// After one message that came in time others are expected to, and the thread may nap. `seen`: how often the bell was
// rung when this thread looked last; none: it has not looked.
void P2p::stop_helping(std::optional<std::uint32_t> seen, bool moved) {
  const bool well = operations_.is_empty();
  if (helper_.may_nap_on(well)) return;
  // Those who posted something meanwhile, or changed what the thread must sleep on, could not wake it.
  const bool wakes = well || moved || operations_.has_ended() || helper_.is_due() || links_.reach_hosts();
  bell_.resume(seen.value_or(bell_.rung() - 1));
  if (wakes) ring_own();
}

std::size_t P2p::pending() {
  const Lock lock(callers_.mutex());
  return operations_.pending().size();
}

void P2p::end() {
  Lock lock(callers_.mutex());
  operations_.close();
  broken_ = true;
  operations_.finish_all([this](const Pending& pending) { return end_of(pending); });
  links_.cease();
  threads_.notify_all();
  ring_own();
  threads_.join(lock);
  callers_.await_left(lock);
  // What was sent is to arrive, although this process may end now.
  if (links_.reach_hosts() && !wait_.told()) links_.await_arrival(kLastWords);
  links_.forget_hosts();
}

}  // namespace dtrain
