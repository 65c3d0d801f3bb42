// What the thread does; see p2p.h.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "strategies/comm/futex.h"
#include "strategies/comm/p2p.h"

namespace dtrain {
namespace {

// How long the thread sleeps where nothing is pending.
constexpr std::chrono::minutes kIdle{1};
// For how long after a wait that did without the thread another one is expected to; see stop_helping(). So often the
// thread looks by itself, and each time it may take a core from who moves a message, in this rank or the other.
constexpr std::chrono::microseconds kLinger{1000};
// How often who helps moves something before it looks at the clock.
constexpr int kStepsBetweenClocks = 16;
// And how often who expects a message looks before that.
constexpr int kLooks = 64;

}  // namespace

void P2p::start_thread() {
  threads_.emplace_back([this] { progress_loop(); });
  ++idle_;
}

void P2p::progress_loop() {
  ::pthread_setname_np(::pthread_self(), "dtrain-p2p");
  std::unique_lock lock(mutex_);
  const auto over = [this] { return ended_ && ended_operations_.empty(); };
  while (true) {
    signals_.role.wait(lock, [this] { return !running_; });
    --idle_;
    if (over()) return;
    running_ = true;
    bool kept = true;
    while (kept && !over()) kept = step(lock);
    ++idle_;
    if (!kept) continue;
    running_ = false;
    signals_.role.notify_all();
  }
}

// False: another thread took over meanwhile.
bool P2p::step(std::unique_lock<std::mutex>& lock) {
  let_callers_in(lock);
  const std::uint32_t seen = bell_.rung();
  const bool moved = or_fail([this] {
    const bool some = move();
    if (Clock::now() >= next_look_) look_around();
    return some;
  });
  if (!ended_operations_.empty()) return hand_out(lock);
  if (moved) {
    quiet_ = false;
  } else if (!ended_) {
    rest(lock, seen);
  }
  return true;
}

template <class Action>
bool P2p::or_fail(Action action) {
  try {
    return action();
  } catch (const std::exception&) {  // no memory for what arrived, or it is no message
    wait_.record({FailureKind::aborted, rank_});
    fail_rest();
    return false;
  }
}

void P2p::help(Id id, const std::function<bool()>& over) {
  std::unique_lock lock = lock_as_caller();
  std::optional<Ended> own = take_ended(id);
  if (!own && !may_help(id)) return;
  ++helpers_;
  if (!own) own = help_along(lock, id, over);
  lock.unlock();
  if (own) own->done(own->outcome, [] {});  // the thread goes on meanwhile
  lock.lock();
  --helpers_;
  signals_.role.notify_all();  // for end()
}

bool P2p::may_help(Id id) const { return !helped_ && pending_.contains(id); }

// The operation, if it has ended: its done() is to be called.
std::optional<P2p::Ended> P2p::help_along(std::unique_lock<std::mutex>& lock, Id id,
                                          const std::function<bool()>& over) {
  Patience patience = patience_of_caller();
  std::optional<Ended> own;
  std::uint32_t seen = 0;
  bool moves = true;
  int steps = 0;
  helped_ = true;
  bell_.relieve();
  while (!own && ended_operations_.empty() && !over()) {
    if (moves || bell_.rung() != seen) {
      seen = bell_.rung();
      moves = or_fail([this] { return move(); });
      own = take_ended(id);
      if (++steps % kStepsBetweenClocks == 0 && patience.is_over()) break;
    } else {
      std::vector<pollfd> polls = interests();
      lock.unlock();
      moves = bell_.spin(seen, patience, polls, over);
      lock = lock_as_caller();
      if (!moves && bell_.rung() == seen) break;
    }
  }
  helped_ = false;
  stop_helping(seen, moves);
  return own;
}

// Until what is expected of this link is settled, or as long as in help_along(), and no longer than this rank has
// nothing else to do.
void P2p::look_at(P2pLink& link, std::unique_lock<std::mutex>& lock) {
  Patience patience = patience_of_caller();
  const auto is_alone = [this] { return pending_.empty() && ended_operations_.empty() && !broken_; };
  int steps = 0;
  helped_ = true;
  if (!naps_) bell_.relieve();
  for (bool some = true; some && !settled_ && is_alone();) {
    if (or_fail([&] { return move(link); })) {
      some = ++steps % kStepsBetweenClocks != 0 || !patience.is_over();
      continue;
    }
    lock.unlock();
    some = look_for(patience, kLooks, spin_.count() == 0, [&] { return settled_ || link.has_some(); });
    lock = lock_as_caller();
  }
  helped_ = false;
  stop_helping({}, false);
}

// After one message that came in time others are expected to. To wake the thread for each would cost more than all the
// rest, so for a while it naps, unless it has something else to wait for.
void P2p::stop_helping(std::optional<std::uint32_t> seen, bool moves) {
  lingers_ = pending_.empty() && ended_operations_.empty();
  if (seen) helped_until_ = lingers_ ? Clock::now() + kLinger : Clock::time_point::min();
  if (lingers_ && naps_) return;
  // Those who posted something meanwhile, or changed what it must sleep on, could not wake it.
  const bool wakes = lingers_ || moves || !ended_operations_.empty() || next_look_ < wakes_at_ || elsewhere_ != nullptr;
  bell_.resume(seen.value_or(bell_.rung() - 1));
  if (wakes) ring_own();
}

// It does not heed the others in a nap, but its own rank.
void P2p::ring_own() {
  if (naps_) bell_.resume(bell_.rung());
  bell_.ring(rank_);
}

// One of them: what hangs on it may wait for the next.
bool P2p::hand_out(std::unique_lock<std::mutex>& lock) {
  bool kept = true;
  {
    const Ended operation = std::move(ended_operations_.front());
    ended_operations_.pop_front();
    lock.unlock();
    operation.done(operation.outcome, [&] {
      if (kept) make_way();
      kept = false;
    });
  }
  lock.lock();
  return kept;
}

void P2p::make_way() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  if (idle_ == 0) start_thread();
  signals_.role.notify_one();
}

void P2p::rest(std::unique_lock<std::mutex>& lock, std::uint32_t seen) {
  const auto now = Clock::now();
  const bool idle = pending_.empty() && quiet_;
  const bool lingers = std::exchange(lingers_, false) || now < helped_until_;
  naps_ = lingers && (pending_.empty() || helped_);
  wakes_at_ = idle ? now + kIdle : std::clamp(next_look_, now, now + kLookAround);
  if (naps_) wakes_at_ = std::min(wakes_at_, now + kLinger);
  quiet_ = true;
  const auto limit = wakes_at_ - now;
  const auto spin = pending_.empty() || naps_ || helped_ ? std::chrono::microseconds{0} : spin_;
  std::vector<pollfd> polls;
  const bool heeds = !broken_ && !naps_, wakes = !naps_;
  if (heeds) polls = interests();
  const auto links = static_cast<std::ptrdiff_t>(polls.size());
  if (elsewhere_ != nullptr && heeds) elsewhere_->watch_words(polls);
  lock.unlock();
  bell_.wait(seen, spin, limit, polls, wakes);
  lock.lock();
  naps_ = false;
  wakes_at_ = Clock::time_point::min();
  const auto spoke = [](const pollfd& entry) { return entry.revents != 0; };
  if (std::any_of(polls.begin() + links, polls.end(), spoke)) next_look_ = Clock::now();
}

// Of all links, in their order; none on one host.
std::vector<pollfd> P2p::interests() const {
  std::vector<pollfd> polls;
  if (elsewhere_ == nullptr) return polls;
  for (const auto& [rank, link] : links_) polls.push_back(link->interest());
  return polls;
}

void P2p::look_at_connections() {
  std::vector<pollfd> polls = interests();
  if (polls.empty() || ::poll(polls.data(), polls.size(), 0) <= 0) return;
  auto entry = polls.begin();
  for (const auto& [rank, link] : links_) link->notice((entry++)->revents);
}

bool P2p::move() {
  if (broken_) return false;
  look_at_connections();
  bool moved = false;
  for (const auto& [rank, link] : links_) {
    moved |= link->take(core_);
    moved |= link->send(core_);
  }
  collect();
  return moved;
}

bool P2p::move(P2pLink& link) {
  if (broken_) return false;
  const bool took = link.take(core_);
  const bool sent = link.send(core_);
  collect();
  return took || sent;
}

void P2p::collect() {
  if (core_.is_settled()) settled_ = true;
  for (const P2pCore::Finished& finished : core_.finished()) {
    if (finished.misfit.empty()) {
      finish(finished.id, {nullptr, finished.peer});
      continue;
    }
    const std::string detail =
        fmt::format("rank {} sent {} with tag {}, rank {} expects {}", finished.peer, finished.misfit,
                    pending_.at(finished.id).call.label.tag, rank_, pending_.at(finished.id).call.label.text);
    return fail({FailureKind::mismatched, rank_}, finished.id, detail);
  }
}

void P2p::look_around() {
  next_look_ = Clock::now() + kLookAround;
  heed();  // also where nothing is pending: this rank may be the one that the others miss
  if (wait_.failed()) return fail_rest();
  if (pending_.empty()) return;
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

void P2p::heed() {
  if (elsewhere_ == nullptr) return;
  try {
    elsewhere_->heed("");
  } catch (const CollectiveError&) {  // the group's failure now
  }
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
    fail({FailureKind::peer_left, some_other()}, *id, links_.size() > 1 ? "and so did all others" : "");
}

void P2p::find_late() {
  const auto now = Clock::now();
  for (const auto& [id, pending] : pending_) {
    if (pending.deadline > now) {
      next_look_ = std::min(next_look_, pending.deadline);
      continue;
    }
    const bool any = pending.call.peer == P2pCore::kAny;
    const int missed = any ? some_other() : pending.call.peer;
    return fail({FailureKind::timed_out, missed}, id,
                any ? "nor did any other rank's message" : links_.at(missed)->why_late());
  }
}

}  // namespace dtrain
