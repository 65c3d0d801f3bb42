// What RoundCore tells of itself: to those who wait, and to `dtrain status`.
// Tested by test/unit/rendezvous/rounds/round_core_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/counted.h"
#include "rendezvous/rounds/round_core.h"

namespace dtrain {

namespace {

constexpr std::size_t kNamed = 4;  // in a line for people

std::int64_t milliseconds(Duration d) { return std::chrono::duration_cast<std::chrono::milliseconds>(d).count(); }

// "a, b, c and 60 more"
std::string some(const std::vector<std::string>& names, std::size_t all) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return all > kNamed ? fmt::format("{} and {} more", text, all - kNamed) : text;
}

}  // namespace

const char* to_string(RoundPhase phase) {
  switch (phase) {
    case RoundPhase::gathering:
      return "gathering";
    case RoundPhase::running:
      return "running";
    case RoundPhase::stopping:
      return "stopping";
    case RoundPhase::ended:
      return "ended";
  }
  return "?";
}

std::string RoundCore::opening_reason(std::size_t nodes) const {
  std::string why = "the last call is over";
  if (int(nodes) == settings_.max_nodes) why = "all nodes are there";
  if (!growth_.empty()) why = growth_;
  if (cause_) why = cause_->reason;
  const bool failure = cause_ && cause_->how == JobEnd::failure;
  const std::string restart = failure ? fmt::format(", restart {} of {}", restarts_, settings_.max_restarts) : "";
  return fmt::format("round {} opens with {}{}: {}", round_, counted(nodes, "node"), restart, why);
}

// Of a job with fixed ranks.
std::string RoundCore::missing() const {
  std::vector<std::string> names;
  const std::size_t count = std::size_t(settings_.max_nodes) - members_.wanted_ranks();
  for (int rank = 0; rank < settings_.max_nodes && names.size() < std::min(count, kNamed); ++rank) {
    if (members_.with_wanted_rank(rank) != nullptr) continue;
    const bool named = std::size_t(rank) < settings_.names.size();
    names.push_back(named ? settings_.names[std::size_t(rank)] : fmt::format("node {}", rank));
  }
  return names.empty() ? "" : "missing " + some(names, count);
}

// "here: node1 (2), node2"
std::string RoundCore::here() const {
  std::map<std::string, int> hosts;
  for (const auto& [id, m] : members_.all()) ++hosts[m.info.host];
  std::vector<std::string> names;
  for (const auto& [host, count] : hosts)
    if (names.size() < kNamed) names.push_back(count == 1 ? host : fmt::format("{} ({})", host, count));
  return names.empty() ? "" : "here: " + some(names, hosts.size());
}

JobFacts RoundCore::facts(MonoTime now) const {
  JobFacts facts;
  facts.phase = to_string(phase_);
  facts.round = round_;
  facts.restarts = restarts_;
  facts.nodes = int(members_.size());
  facts.min_nodes = settings_.min_nodes;
  facts.max_nodes = settings_.max_nodes;
  const auto until = last_call_ ? last_call_ : join_deadline_;
  const bool waits = phase_ == RoundPhase::gathering && until;
  if (waits) facts.left_ms = std::max<std::int64_t>(0, milliseconds(*until - now));
  if (waits && settings_.fixed_ranks) facts.missing = missing();
  if (phase_since_ != MonoTime{}) facts.phase_ms = milliseconds(now - phase_since_);
  for (const auto& [id, m] : members_.all()) {
    const char* state = m.leaving ? "leaving" : !m.in_round() ? "waiting" : m.over ? "over" : "running";
    facts.list.push_back({m.info.host.substr(0, kFactsNameBytes), m.info.pid,
                          m.in_round()            ? m.node_rank
                          : settings_.fixed_ranks ? m.info.wanted_rank
                                                  : -1,
                          0, m.info.workers, state});
  }
  const auto order = [](const NodeFacts& n) { return n.node_rank < 0 ? INT32_MAX : n.node_rank; };
  std::stable_sort(facts.list.begin(), facts.list.end(),
                   [&](const NodeFacts& a, const NodeFacts& b) { return order(a) < order(b); });
  int base = 0;
  for (NodeFacts& node : facts.list) node.base_rank = std::exchange(base, base + node.workers);
  if (facts.list.size() > kFactsNodes) facts.list.resize(kFactsNodes);
  facts.decisions = decided_.list(now);
  return facts;
}

}  // namespace dtrain
