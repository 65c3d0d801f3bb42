// What the thread does, and what ends operations that cannot end well; see p2p.h.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strategies/comm/messages/p2p.h"

namespace dtrain {

void P2p::take_turns() {
  Lock lock(callers_.mutex());
  threads_.take_turns(
      lock, [] { return true; }, [this] { return operations_.is_closed() && !operations_.has_ended(); },
      [this](Lock& held) { return step(held); });
}

// False: another thread took over meanwhile.
bool P2p::step(Lock& lock) {
  callers_.let_in(lock);
  const std::uint32_t seen = bell_.rung();
  const bool moved = or_fail([this] {
    const bool some = move(nullptr);
    if (helper_.has_to_look(Clock::now())) look_around();
    return some;
  });
  if (operations_.has_ended()) return hand_out(lock);
  if (moved) {
    helper_.be_busy();
  } else if (!operations_.is_closed()) {
    rest(lock, seen);
  }
  return true;
}

// One callback: what hangs on it may wait for the next.
bool P2p::hand_out(Lock& lock) {
  bool kept = true;
  {
    const Ended operation = operations_.take_first();
    lock.unlock();
    operation.done(operation.outcome, [&] {
      if (std::exchange(kept, false)) threads_.make_way();
    });
  }
  lock.lock();
  return kept;
}

void P2p::rest(Lock& lock, std::uint32_t seen) {
  const auto now = Clock::now();
  const P2pHelper::Rest rest = helper_.rest(now, operations_.has_pending());
  const auto spin = rest.spins ? spin_ : std::chrono::microseconds{0};
  const bool heeds = !broken_ && !rest.naps;
  std::vector<pollfd> polls;
  if (heeds) polls = links_.interests();
  const auto links = static_cast<std::ptrdiff_t>(polls.size());
  if (heeds) links_.watch_words(polls);
  lock.unlock();
  bell_.wait(seen, spin, rest.until - now, polls, !rest.naps);
  lock.lock();
  helper_.wake();
  const auto spoke = [](const pollfd& entry) { return entry.revents != 0; };
  if (std::any_of(polls.begin() + links, polls.end(), spoke)) helper_.look_by(Clock::now());
}

// In a nap the thread does not heed other ranks, but its own.
void P2p::ring_own() {
  if (helper_.naps()) bell_.resume(bell_.rung());
  bell_.ring(rank_);
}

// Take what came and send what fits, on one link, or on all (null). True: there was some.
bool P2p::move(P2pLink* only) {
  if (broken_) return false;
  bool moved = false;
  const auto move_on = [&](P2pLink& link) {
    moved |= link.take(core_);
    moved |= link.send(core_);
  };
  if (only != nullptr) {
    move_on(*only);
  } else {
    links_.look();
    for (const auto& [rank, link] : links_) move_on(*link);
  }
  collect();
  return moved;
}

// End what the core has finished.
void P2p::collect() {
  if (core_.is_settled()) settled_ = true;
  for (const P2pCore::Finished& finished : core_.finished()) {
    if (finished.misfit.empty()) {
      operations_.finish(finished.id, {nullptr, finished.peer});
      continue;
    }
    const P2pCore::Label& label = operations_.at(finished.id).request.label;
    const std::string detail = fmt::format("rank {} sent {} with tag {}, rank {} expects {}", finished.peer,
                                           finished.misfit, label.tag, rank_, label.text);
    return fail({FailureKind::mismatched, rank_}, finished.id, detail);
  }
}

void P2p::look_around() {
  helper_.looks(Clock::now());
  links_.heed();  // also where nothing is pending: this rank may be the one that the others miss
  if (wait_.failed()) return fail_rest();
  if (!operations_.has_pending()) return;
  // What a rank did last is looked at only after seeing that it can do no more.
  std::map<int, P2pLink::Fate> fates;
  for (const auto& [rank, link] : links_) {
    fates[rank] = link->fate();
    while (fates[rank] != P2pLink::Fate::here && link->take(core_)) {
    }
  }
  collect();
  if (!broken_) find_gone(fates);
  if (!broken_) find_late();
}

void P2p::find_gone(const std::map<int, P2pLink::Fate>& fates) {
  bool alone = true;
  for (const auto& [rank, fate] : fates) {
    if (broken_) return;
    if (fate == P2pLink::Fate::here) {
      alone = false;
      continue;
    }
    const bool left = fate == P2pLink::Fate::left;
    auto id = core_.waits_for(rank);
    // Who left has ended well: another rank may still send what any may.
    if (!id && !left) id = core_.waits_for(P2pCore::kAny);
    if (id) fail({left ? FailureKind::peer_left : FailureKind::peer_died, rank}, *id, "");
  }
  if (!alone || broken_) return;
  if (const auto id = core_.waits_for(P2pCore::kAny))
    fail({FailureKind::peer_left, links_.some_rank()}, *id, links_.are_many() ? "and so did all others" : "");
}

void P2p::find_late() {
  const auto now = Clock::now();
  for (const auto& [id, pending] : operations_.pending()) {
    if (pending.deadline > now) {
      helper_.look_by(pending.deadline);
      continue;
    }
    const int peer = pending.request.peer;
    const bool any = peer == P2pCore::kAny;
    return fail({FailureKind::timed_out, any ? links_.some_rank() : peer}, id,
                any ? "nor did any other rank's message" : links_.at(peer).why_late());
  }
}

// An operation fails, and with it the group.
void P2p::fail(const Failure& failure, Id id, const std::string& detail) {
  const Pending& pending = operations_.at(id);
  try {
    wait_.fail(failure, pending.name(), detail);
  } catch (...) {
    operations_.finish(id, {std::current_exception(), pending.request.peer});
  }
  fail_rest();
}

// The group has failed: from now on nobody's memory is touched.
void P2p::fail_rest() {
  broken_ = true;
  links_.cease();
  links_.tell();
  operations_.finish_all([this](const Pending& pending) { return failure_of(pending); });
}

// What the operation ends with where the group has failed; null: it has not.
std::exception_ptr P2p::failure_of(const Pending& pending) const {
  try {
    wait_.check(pending.name());
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// What the operation ends with where the group ends.
std::exception_ptr P2p::end_of(const Pending& pending) const {
  if (auto failure = failure_of(pending)) return failure;
  return std::make_exception_ptr(describe({FailureKind::aborted, rank_}, segment_.rank(rank_).pid, pending.name(),
                                          "the group was shut down with this pending"));
}

}  // namespace dtrain
