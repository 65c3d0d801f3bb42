// See local_steps.h.
#include "strategies/comm/local/local_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {

// How long a rank spins before it sleeps. Spinning helps only while every rank has a core to itself; 0: it yields
// (kYielding).
std::chrono::microseconds spin_for(bool has_cores) { return std::chrono::microseconds{has_cores ? 50 : 0}; }

// With larger ones going ahead gains nothing; and if one of two ranks is held up once, they would wait for each other
// in turn for longer than they spin.
constexpr std::size_t kMostAhead = 4096;

}  // namespace

LocalSteps::LocalSteps(ShmSegment segment, int own_rank, bool has_cores)
    : rank(own_rank),
      ranks(static_cast<int>(segment.header().ranks)),
      slot_bytes(segment.header().slot_bytes),
      segment_(std::move(segment)),
      wait_(segment_, watch_, own_rank, {spin_for(has_cores)}) {}

void LocalSteps::watch_members() {
  std::vector<int> pids(static_cast<std::size_t>(ranks));
  for (const int r : members()) pids[static_cast<std::size_t>(r)] = block(r).pid;
  watch_.watch(pids, rank);
}

void LocalSteps::meet(ShmWait::Deadline deadline) {
  ++point_;
  wait_.arrive(point_);
  wait_.wait_all(point_, ShmWait::Limit(deadline), [] { return std::string("forming the group"); });
}

void LocalSteps::begin(const CollectiveCall& call, std::uint64_t place) {
  if (ahead_of_) {
    const CollectiveCall last = *std::exchange(ahead_of_, std::nullopt);
    // The last call's own timeout: this call's time begins after it.
    wait_.wait_all(point_, ShmWait::Limit(last.timeout), [&last] { return last.name(); });
    compare(last);
  }
  parity_ ^= 1U;
  own_block().ops[parity_] = call.descriptor;
  own_block().origins[parity_] = call.origin;
  own_block().places[parity_] = place;
}

void LocalSteps::sync(const CollectiveCall& call) {
  ++point_;
  wait_.arrive(point_);
  wait_.wait_all(point_, call.limit, [&call] { return call.name(); });
}

void LocalSteps::go_ahead_or_sync(const CollectiveCall& call, std::size_t bytes) {
  if (bytes > kMostAhead) return sync_and_compare(call);
  wait_.arrive(++point_);
  ahead_of_ = call;
}

void LocalSteps::compare(const CollectiveCall& call) {
  const auto called = [this](int member) -> const OpDescriptor& { return block(member).ops[parity_]; };
  const auto same = [&](int member) { return called(member) == call.descriptor; };
  if (std::all_of(members().begin(), members().end(), same)) return;
  // Every rank names the same culprit: the first rank that differs from the first.
  const int first = members().front();
  const int culprit = *std::find_if(members().begin() + 1, members().end() - 1,
                                    [&](int member) { return !(called(member) == called(first)); });
  const auto text = [&](int member) { return CollectiveCall::text(called(member), block(member).origins[parity_]); };
  wait_.fail({FailureKind::mismatched, culprit}, fmt::format("collective {}", call.number),
             fmt::format("rank {} called {}, rank {} called {}", first, text(first), culprit, text(culprit)));
}

}  // namespace dtrain
