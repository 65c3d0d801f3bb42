// What the thread does; see shm_p2p.h.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

#include "strategies/comm/futex.h"
#include "strategies/comm/shm_p2p.h"

namespace dtrain {
namespace {

// Frames that one ring gives or takes before the next one's turn.
constexpr int kBurst = 64;
// How long the thread sleeps where nothing is pending.
constexpr std::chrono::minutes kIdle{1};

}  // namespace

void ShmP2p::start_thread() {
  threads_.emplace_back([this] { progress_loop(); });
  ++idle_;
}

void ShmP2p::progress_loop() {
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
bool ShmP2p::step(std::unique_lock<std::mutex>& lock) {
  let_callers_in(lock);
  const std::uint32_t seen = segment_.rank(rank_).bell.load(std::memory_order_seq_cst);
  bool moved = false;
  try {
    moved = move();
    if (Clock::now() >= next_look_) look_around();
  } catch (const std::exception&) {  // no memory for what arrived
    wait_.record({FailureKind::aborted, rank_});
    fail_rest();
  }
  if (!ended_operations_.empty()) return hand_out(lock);
  if (moved) {
    quiet_ = false;
  } else if (!ended_) {
    rest(lock, seen);
  }
  return true;
}

// One of them: what hangs on it may wait for the next.
bool ShmP2p::hand_out(std::unique_lock<std::mutex>& lock) {
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

void ShmP2p::make_way() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  if (idle_ == 0) start_thread();
  signals_.role.notify_one();
}

void ShmP2p::rest(std::unique_lock<std::mutex>& lock, std::uint32_t seen) {
  RankBlock& own = segment_.rank(rank_);
  const auto now = Clock::now();
  const bool idle = pending_.empty() && quiet_;
  wakes_at_ = idle ? now + kIdle : std::clamp(next_look_, now, now + kLookAround);
  quiet_ = true;
  const auto limit = wakes_at_ - now;
  const auto spin_until = now + (pending_.empty() ? std::chrono::microseconds{0} : spin_);
  lock.unlock();
  const auto rung = [&] { return own.bell.load(std::memory_order_seq_cst) != seen; };
  while (!rung() && Clock::now() < spin_until) cpu_relax();
  // Sequentially consistent with ring_bell's two steps: either we see its ring or it sees us asleep.
  own.asleep.store(1, std::memory_order_seq_cst);
  if (!rung()) futex_wait(own.bell, seen, limit);
  own.asleep.store(0, std::memory_order_relaxed);
  lock.lock();
  wakes_at_ = Clock::time_point::min();
}

void ShmP2p::ring_bell(int rank) {
  RankBlock& block = segment_.rank(rank);
  block.bell.fetch_add(1, std::memory_order_seq_cst);
  if (block.asleep.load(std::memory_order_seq_cst) != 0) futex_wake_all(block.bell);
}

bool ShmP2p::move() {
  if (broken_) return false;
  bool moved = false;
  for (const int r : segment_.members()) {
    if (r == rank_) continue;
    moved |= take_from(r);
    moved |= write_to(r);
  }
  collect();
  return moved;
}

bool ShmP2p::take_from(int rank) {
  ShmRing from = ring(rank, rank_);
  PairBlock& block = segment_.pair(rank, rank_);
  // Cleared before, and asked again after, the reads: a wish of meanwhile is not lost.
  const auto asked = [&] { return block.wants_room.load(std::memory_order_seq_cst) != 0; };
  const bool asked_before = asked();
  if (asked_before) block.wants_room.store(0, std::memory_order_seq_cst);
  const auto take = [&](const Frame& frame, std::span<const std::byte> payload) { core_.take(rank, frame, payload); };
  int taken = 0;
  while (taken < kBurst && from.read(take)) ++taken;
  if (asked_before || asked()) ring_bell(rank);
  return taken > 0;
}

bool ShmP2p::write_to(int rank) {
  ShmRing to = ring(rank_, rank);
  PairBlock& block = segment_.pair(rank_, rank);
  int written = 0;
  for (bool asked = false; written < kBurst && core_.has_next(rank);) {
    const auto room = to.room();
    const auto next = room ? core_.next(rank, *room, block.returned.load(std::memory_order_acquire)) : std::nullopt;
    if (next) {
      to.write(next->frame, next->payload);
      ring_bell(rank);
      ++written;
      asked = false;
    } else if (asked) {
      break;
    } else {
      block.wants_room.store(1, std::memory_order_seq_cst);
      asked = true;
    }
  }
  return written > 0;
}

void ShmP2p::collect() {
  for (const P2pCore::Finished& finished : core_.finished()) {
    // What a receive took out of the window may be used again.
    segment_.pair(finished.peer, rank_).returned.store(core_.returned(finished.peer), std::memory_order_release);
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

void ShmP2p::look_around() {
  next_look_ = Clock::now() + kLookAround;
  if (pending_.empty()) return;
  if (wait_.failed()) return fail_rest();
  // What a rank did last is looked at only after seeing that it can do no more.
  const std::vector<bool> ended = watch_.ended();
  std::vector<bool> left(ended.size());
  for (const int r : segment_.members()) {
    const auto at = static_cast<std::size_t>(r);
    left[at] = segment_.rank(r).left.load(std::memory_order_acquire) != 0;
    while (r != rank_ && (ended[at] || left[at]) && take_from(r)) {
    }
  }
  collect();
  if (!broken_) find_gone(ended, left);
  if (!broken_) find_late();
}

void ShmP2p::find_gone(const std::vector<bool>& ended, const std::vector<bool>& left) {
  bool alone = true;
  for (const int r : segment_.members()) {
    const auto at = static_cast<std::size_t>(r);
    if (r == rank_ || broken_) continue;
    if (!ended[at] && !left[at]) {
      alone = false;
      continue;
    }
    auto id = core_.waits_for(r);
    // Who left has ended well: another rank may still send what any may.
    if (!id && !left[at]) id = core_.waits_for(P2pCore::kAny);
    if (id) fail({left[at] ? FailureKind::peer_left : FailureKind::peer_died, r}, *id, "");
  }
  if (!alone || broken_) return;
  if (const auto id = core_.waits_for(P2pCore::kAny))
    fail({FailureKind::peer_left, some_other()}, *id, segment_.members().size() > 2 ? "and so did all others" : "");
}

void ShmP2p::find_late() {
  const auto now = Clock::now();
  for (const auto& [id, pending] : pending_) {
    if (pending.deadline > now) {
      next_look_ = std::min(next_look_, pending.deadline);
      continue;
    }
    const bool any = pending.call.peer == P2pCore::kAny;
    const int missed = any ? some_other() : pending.call.peer;
    return fail({FailureKind::timed_out, missed}, id,
                any ? "nor did any other rank's message" : why_late(segment_.rank(missed).pid));
  }
}

}  // namespace dtrain
