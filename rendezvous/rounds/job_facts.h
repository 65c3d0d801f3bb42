#pragma once
// What the host of the rounds can tell about its job, for `dtrain status`; and how decisions are remembered. Pure.
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/clock.h"

namespace dtrain {

// All of it fits into one frame of the agent link.
inline constexpr std::size_t kFactsNodes = 64;      // nodes that are listed
inline constexpr std::size_t kFactsNameBytes = 64;  // of a host's name
inline constexpr std::size_t kDecisions = 24;
inline constexpr std::size_t kDecisionBytes = 240;

struct NodeFacts {
  std::string host;
  int agent = 0;       // its pid there
  int node_rank = -1;  // -1: not in the present round
  int base_rank = 0;   // of its first worker
  int workers = 1;
  std::string state;  // one word: running, over, leaving, waiting
  bool operator==(const NodeFacts&) const = default;
};

struct Decision {
  std::int64_t age_ms = 0;
  std::string text;  // what was decided and why, one line
  bool operator==(const Decision&) const = default;
};

struct JobFacts {
  std::string phase;
  int round = -1;  // none yet
  int restarts = 0;
  int nodes = 0;  // that are there
  int min_nodes = 1;
  int max_nodes = 1;
  std::int64_t left_ms = -1;        // until the waiting for nodes ends; -1: it does not wait
  std::int64_t phase_ms = 0;        // how long it has been in this phase
  std::string missing;              // nodes that are waited for, by name
  std::vector<NodeFacts> list;      // the first kFactsNodes, by node rank
  std::vector<Decision> decisions;  // oldest first
  bool operator==(const JobFacts&) const = default;
};

// The last kDecisions, each with its time.
class DecisionLog {
 public:
  void add(std::string text, MonoTime now) {
    if (!entries_.empty() && entries_.back().second == text) entries_.pop_back();  // only again
    if (text.size() > kDecisionBytes) text.resize(kDecisionBytes);
    entries_.emplace_back(now, std::move(text));
    if (entries_.size() > kDecisions) entries_.pop_front();
  }
  std::vector<Decision> list(MonoTime now) const {
    std::vector<Decision> all;
    for (const auto& [at, text] : entries_)
      all.push_back({std::chrono::duration_cast<std::chrono::milliseconds>(now - at).count(), text});
    return all;
  }

 private:
  std::deque<std::pair<MonoTime, std::string>> entries_;
};

}  // namespace dtrain
