// See shm_wait.h.
#include "strategies/comm/memory/shm_wait.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/memory/futex.h"

namespace dtrain {
namespace {

using Clock = std::chrono::steady_clock;

// 'T' for a stopped process; 0 if the state is not known.
char process_state(int pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(stat, line);
  const auto name_end = line.rfind(") ");
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

}  // namespace

std::string why_late(int pid) {
  return process_state(pid) == 'T' ? fmt::format("it is stopped; kill -CONT {} would continue it", pid) : "";
}

PeerWatch::~PeerWatch() {
  for (const int fd : pidfds_) {
    if (fd >= 0) ::close(fd);
  }
}

void PeerWatch::watch(const std::vector<int>& pids, int own_rank) {
  pidfds_.assign(pids.size(), -1);
  for (std::size_t r = 0; r < pids.size(); ++r) {
    if (static_cast<int>(r) == own_rank || pids[r] == 0) continue;
    pidfds_[r] = static_cast<int>(::syscall(SYS_pidfd_open, pids[r], 0));
    if (pidfds_[r] >= 0) continue;
    pidfds_[r] = kGone;
    if (errno == ESRCH) continue;
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("watching rank {} (pidfd_open {})", r, pids[r]));
  }
}

std::vector<bool> PeerWatch::ended() const {
  std::vector<pollfd> polls;
  for (const int fd : pidfds_) polls.push_back({fd, POLLIN, 0});  // poll skips negative descriptors
  ::poll(polls.data(), polls.size(), 0);
  std::vector<bool> ended;
  ended.reserve(polls.size());
  for (const pollfd& entry : polls) ended.push_back(entry.fd == kGone || (entry.revents & POLLIN) != 0);
  return ended;
}

bool PeerWatch::ends_within(int rank, std::chrono::milliseconds time) const {
  pollfd entry{pidfds_[static_cast<std::size_t>(rank)], POLLIN, 0};
  return entry.fd == kGone || (::poll(&entry, 1, static_cast<int>(time.count())) == 1 && (entry.revents & POLLIN) != 0);
}

ShmWait::ShmWait(const ShmSegment& segment, const PeerWatch& watch, int own_rank, Options options)
    : segment_(segment), watch_(watch), own_rank_(own_rank), options_(options), asked_(segment.header().ranks) {}

ShmWait::Deadline ShmWait::after(std::chrono::milliseconds timeout) {
  return Clock::now() + std::min<std::chrono::milliseconds>(timeout, kLongestTimeout);
}

void ShmWait::arrive(std::uint32_t point) {
  RankBlock& own = segment_.rank(own_rank_);
  // Sequentially consistent with the sleeper's two steps: either the sleeper sees the new value, or this rank sees the
  // sleeper.
  own.arrived.store(point, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(own.arrived);
}

bool ShmWait::reached(int rank, std::uint32_t point) const {
  const std::uint32_t arrived = segment_.rank(rank).arrived.load(std::memory_order_acquire);
  return static_cast<std::int32_t>(arrived - point) >= 0;
}

void ShmWait::wait_all(std::uint32_t point, const Limit& limit, const Naming& during) {
  std::optional<Blame> blame;
  for (const int r : segment_.members()) {
    if (r == own_rank_ || comes_soon(r, point)) continue;
    if (!blame) {
      blame.emplace(limit.deadline(), elsewhere_ != nullptr);
      is_missed();
    }
    wait_one(r, point, *blame, during);
  }
}

bool ShmWait::comes_soon(int rank, std::uint32_t point) const {
  Patience patience(has_cores() ? options_.spin : kYielding);
  return look_for(patience, 32, !has_cores(), [&] { return reached(rank, point); });
}

void ShmWait::wait_one(int rank, std::uint32_t point, Blame& blame, const Naming& during) {
  while (!reached(rank, point)) {
    sleep_on(segment_.rank(rank), point, blame.due());
    if (reached(rank, point)) return;
    look_around(point, blame, during());
  }
}

void ShmWait::look_around(std::uint32_t point, Blame& blame, const std::string& during) {
  check(during);
  if (elsewhere_) elsewhere_(during);
  if (is_missed()) blame.hurry(Clock::now());
  check_interrupt();  // may take long, if another thread holds Python's lock
  if (Clock::now() >= blame.due()) time_out(point, blame, during);
  check_peers(point, during);
}

bool ShmWait::is_missed() {
  RankBlock& own = segment_.rank(own_rank_);
  const std::uint32_t missed = own.missed.load();
  if (missed == own.answered.load(std::memory_order_relaxed)) return false;
  own.answered.store(missed);
  if (answer_elsewhere_) answer_elsewhere_();
  return true;
}

void ShmWait::sleep_on(RankBlock& block, std::uint32_t point, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - Clock::now());
  const auto limit = std::clamp<std::chrono::nanoseconds>(left, std::chrono::nanoseconds{0}, kLookAround);
  block.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t seen = block.arrived.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - point) < 0) futex_wait(block.arrived, seen, limit);
  block.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void ShmWait::check(const std::string& during) const {
  if (stop_.load()) throw describe({FailureKind::aborted, own_rank_}, segment_.rank(own_rank_).pid, during, "");
  const std::uint32_t word = segment_.header().failure.load(std::memory_order_acquire);
  if (word == 0) return;
  const Told first = *told();
  throw describe(first.failure, segment_.rank(first.failure.rank).pid, during, first.detail);
}

std::optional<ShmWait::Told> ShmWait::told() const {
  const SegmentHeader& header = segment_.header();
  const std::uint32_t word = header.failure.load(std::memory_order_acquire);
  if (word == 0) return std::nullopt;
  return Told{decode_failure(word), header.told.load(std::memory_order_acquire) == word ? header.detail : ""};
}

void ShmWait::check_peers(std::uint32_t point, const std::string& during) const {
  const std::vector<bool> ended = watch_.ended();
  for (const int r : segment_.members()) {
    // First whether the rank can still do something, then what it did last.
    const bool left = segment_.rank(r).left.load(std::memory_order_acquire) != 0;
    if (r == own_rank_ || (!left && !ended[static_cast<std::size_t>(r)]) || reached(r, point)) continue;
    fail({left ? FailureKind::peer_left : FailureKind::peer_died, r}, during, "");
  }
}

void ShmWait::time_out(std::uint32_t point, Blame& blame, const std::string& during) {
  std::vector<int> missing;
  for (const int r : segment_.members()) {
    if (r != own_rank_ && !reached(r, point)) missing.push_back(r);
  }
  if (missing.empty()) return;  // all ranks came at the last moment
  const auto answered = [this](int r) {
    const std::uint32_t asked = asked_[static_cast<std::size_t>(r)];
    return static_cast<std::int32_t>(segment_.rank(r).answered.load() - asked) >= 0;
  };
  const auto [guilty, ask] = blame.judge(missing, answered, Clock::now());
  if (ask) {
    for (const int r : missing) asked_[static_cast<std::size_t>(r)] = segment_.rank(r).missed.fetch_add(1) + 1;
  }
  if (!guilty) return;
  const int pid = segment_.rank(*guilty).pid;
  std::string detail = missing.size() > 1 ? fmt::format("{} ranks are missing", missing.size()) : "";
  const std::string late = why_late(pid);
  if (!late.empty()) detail += (detail.empty() ? "" : "; ") + late;
  fail({FailureKind::timed_out, *guilty}, during, detail);
}

void ShmWait::record(const Failure& failure) const noexcept {
  std::uint32_t none = 0;
  auto& word = segment_.header().failure;
  if (word.compare_exchange_strong(none, encode(failure), std::memory_order_acq_rel)) futex_wake_all(word);
}

void ShmWait::fail(const Failure& failure, const std::string& during, const std::string& detail) const {
  SegmentHeader& header = segment_.header();
  std::uint32_t none = 0;
  // A mismatch concerns all ranks, so its detail is shared; what is known of a late rank concerns the call that waited.
  const bool tells = failure.kind == FailureKind::mismatched && !detail.empty();
  if (tells && header.told.compare_exchange_strong(none, SegmentHeader::kBeingWritten)) {
    detail.copy(header.detail, sizeof(header.detail) - 1);  // its last byte stays 0
    header.told.store(encode(failure), std::memory_order_release);
  }
  record(failure);
  const Told first = *told();
  const bool ours = first.failure.rank == failure.rank && first.failure.kind == failure.kind;
  throw describe(first.failure, segment_.rank(first.failure.rank).pid, during, ours ? detail : first.detail);
}

}  // namespace dtrain
