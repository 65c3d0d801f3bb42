#pragma once
// Which tensors every rank is ready to reduce, and in which order: one rank's side of the agreement. Pure: no threads,
// tensors, messages or clock.
//
// The ranks go through cycles together. In each, their words() are combined by bitwise AND; if absorb_words() says so,
// all of their requests() are given to each. From that every rank draws the same outcome(), as it holds the same table
// and the same cache: no rank decides for the others. What was reduced once has a bit in the words from then on, so
// that a step like the one before costs no requests.
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtrain/errors.h"
#include "strategies/comm/base/rank_names.h"
#include "strategies/horovod/cache_core.h"

namespace dtrain::hvd {

class Negotiation {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;
  struct Limits {
    std::size_t cache_capacity = 1024;
    Duration stall_warning{60'000};  // a tensor that some ranks have not submitted for so long; 0: never
    Duration stall_failure{0};
  };

  // Ranks are the group's, but in failures and lines, which say `names`.
  Negotiation(int rank, int ranks, const Limits& limits, RankNames names = {});

  // This rank has a tensor; none of that name may be on its way.
  void submit(const Request& request, Moment now);
  // This rank has no more tensors until all have joined; the others' are reduced with zeros of this one. Nothing of it
  // may be on its way.
  void join() { joined_here_ = true; }
  // This rank ends, and all with it.
  void leave() { leaves_ = true; }
  // Since the last cycle this rank has submitted the last of all tensors that were reduced before: no more is expected,
  // as at the end of a step.
  bool all_here() const { return is_new_ && of_pass_ >= cache_.tensors(); }
  // Nothing that this rank submitted is on its way.
  bool idle() const { return pending_.empty() && held_.empty(); }

  // Begins a cycle, at `now`. As many on every rank.
  std::vector<std::uint64_t> words(Moment now);
  // All ranks' words, combined. Whether requests follow.
  bool absorb_words(std::span<const std::uint64_t> agreed);
  std::vector<Asked> requests();
  // By rank.
  void absorb_requests(const std::vector<std::vector<Asked>>& asked);

  // What this cycle came to, the same on every rank.
  struct Outcome {
    std::vector<Request> ready;              // reduced by all ranks, in this order; groups are whole
    std::optional<CollectiveError> failure;  // it is over
    std::vector<int> left;                   // not empty: it is over, without a fault of anybody
    std::optional<int> all_joined;           // the rank that was last
  };
  Outcome outcome();

  // A line about tensors that some ranks keep waiting for; each is said once in the time of stall_warning.
  std::optional<std::string> stalled();

 private:
  struct Pending {
    Request request;
    Moment since;
    std::uint64_t order;  // of submission
    bool sent = false;
  };
  struct Entry {  // a tensor that some ranks have
    Request request;
    std::vector<bool> has;
    Moment since;
    Moment warned;
  };
  struct Held {  // the tensors of a group that all ranks have
    std::vector<Request> requests;
    Moment since;
    Moment warned;
    std::int64_t missing() const { return requests.front().members - static_cast<std::int64_t>(requests.size()); }
  };
  struct Layout;  // of the words

  enum class Way { bit, request, change, sent };
  Way way_of(const Pending& pending) const;
  bool reached(Moment since, Duration limit) const { return limit > Duration{0} && moment_ - since >= limit; }
  bool past_limit() const;
  void note_pass(std::size_t slot);
  std::vector<int> missing(const Entry& entry) const;
  bool absorb_ranks(std::span<const std::uint64_t> agreed, const Layout& layout);
  void absorb_slots(std::span<const std::uint64_t> agreed, const Layout& layout);
  void absorb_request(int rank, const Asked& asked);
  void finish_complete();
  void agree(const Request& request);
  std::string ranks_text(std::vector<int> ranks) const;
  void fail(FailureKind kind, int rank, const std::string& text);
  void fail_past_limit();

  const int rank_;
  const int ranks_;
  const Limits limits_;
  const RankNames names_;
  bool joined_here_ = false;
  bool leaves_ = false;
  std::map<std::string, Pending> pending_;  // of this rank
  std::uint64_t submitted_ = 0;
  // This rank goes through its tensors in passes: one that comes again begins the next.
  std::vector<std::uint64_t> pass_of_;  // of each slot's last submission
  std::uint64_t pass_ = 1;
  std::size_t of_pass_ = 0;  // so many of the cache were submitted in it
  bool is_new_ = false;      // since the last cycle

  // The same on every rank, but for the moments.
  ResponseCache cache_;
  std::list<Entry> table_;
  std::map<std::string, std::list<Entry>::iterator> by_name_;
  std::map<std::string, Held> held_;
  std::vector<bool> joined_;
  Moment moment_{};  // of this cycle
  Outcome outcome_;
};

}  // namespace dtrain::hvd
