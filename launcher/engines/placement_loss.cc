// What is said of hosts that do not come or are lost, and the code of a job that may have lost some.
// Tested by test/unit/launcher/engines/placement_tree_test.cc and placement_test.cc.
#include <fmt/format.h>

#include "launcher/engines/placement.h"

namespace dtrain::launcher {
namespace {

constexpr int kHostLost = 125;

}  // namespace

// For the user, of a host that its ssh has not reached.
std::string Placement::with_advice(std::string why, std::size_t host) const {
  if (through(host) < 0) return why;
  if (why.ends_with('.')) why.pop_back();
  return fmt::format(
      "{}; {} must reach it by ssh without a question; with --ssh-fanout 0 this host reaches all hosts "
      "itself",
      why, name(static_cast<std::size_t>(through(host))));
}

// Those that are lost with a host that reaches them; empty: none.
std::string Placement::lost_with(std::size_t host) const {
  constexpr std::size_t kNamed = 3;
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    int by = through(i);
    while (by >= 0 && by != static_cast<int>(host)) by = through(static_cast<std::size_t>(by));
    if (by < 0 || agents_[i].state == Agent::State::gone) continue;
    if (++count <= kNamed) names += (names.empty() ? "" : ", ") + name(i);
  }
  return count <= kNamed ? names : fmt::format("{} and {} more", names, count - kNamed);
}

// Empty: it has been told with the loss of a host that reaches it.
std::string Placement::loss_of(std::size_t host, int status) const {
  const std::string said = last_words(host);
  if (status == kDied) return fmt::format("{}: {}", name(host), said.empty() ? "the agent has died" : said);
  const std::string others = lost_with(host);
  const std::string with = others.empty() ? "" : fmt::format("; lost with it, because it reaches them: {}", others);
  if (status != kLost && request_.task.place.engine == kSsh)
    return fmt::format("{}: ssh has ended with {}: is the connection lost?{}", name(host), agents_[host].code, with);
  for (int by = through(host); by >= 0; by = through(static_cast<std::size_t>(by)))
    if (agents_[static_cast<std::size_t>(by)].takes_others) return {};
  return fmt::format("{}: the agent is lost{}{}{}", name(host), said.empty() ? "" : ": ", said, with);
}

// All agents end with the job's code. One whose connection is gone does not say it, and a job that does without hosts
// may be done without it.
int Placement::exit_code() const {
  bool one_is_fine = false, one_is_lost = false, all_lost = true;
  int code = 0;
  for (const Agent& agent : agents_) {
    if (!agent.is_member) continue;
    one_is_fine = one_is_fine || agent.code == 0;
    one_is_lost = one_is_lost || agent.is_lost;
    all_lost = all_lost && agent.is_lost;
    if (code == 0 && !agent.is_lost) code = agent.code;
  }
  // By ssh that may be the code of the job.
  if (all_lost) return request_.task.place.engine == kSsh ? kNoConnection : kHostLost;
  if (request_.elastic && one_is_fine) return 0;
  // Nobody else ends with a host that only its own groups miss.
  if (request_.apart) return code == 0 && one_is_lost ? kHostLost : code;
  // The agent that has lost its engine stops its node, and the others take that for a wish of the user's.
  return code != 0 && lost_first_ && !stopped_ && !request_.grows ? kHostLost : code;
}

}  // namespace dtrain::launcher
