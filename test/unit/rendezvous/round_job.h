#pragma once
// A job's RoundCore with a clock of its own, for stories: what it hears, and what it says to whom.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/rounds/round_core.h"

namespace dtrain::test {

inline RoundSettings settings(int min, int max, int restarts = 0) {
  RoundSettings s;
  s.job = "j";
  s.host_agent = "a1";
  s.min_nodes = min;
  s.max_nodes = max;
  s.max_restarts = restarts;
  return s;
}

struct Job {
  explicit Job(RoundSettings s) : core(s), own(s) {}
  RoundCore core;
  RoundSettings own;
  MonoTime now{};
  std::vector<std::string> said;  // "2: open 0/2" and the like, of the last step
  std::vector<std::string> told;  // to the user of the host

  NodeInfo info(MemberId id) const {
    return {own.job,       "a" + std::to_string(id), "h",  int(id), "r", "", 2, -1, own.min_nodes,
            own.max_nodes, own.max_restarts,         50000};
  }
  void take(const std::vector<RoundAction>& actions) {
    said.clear();
    told.clear();
    for (const auto& action : actions) {
      if (const auto* tell = std::get_if<round_action::Tell>(&action)) told.push_back(tell->line);
      const auto* send = std::get_if<round_action::Send>(&action);
      if (send == nullptr) continue;
      const std::string to = std::to_string(send->member) + ": ";
      if (const auto* m = std::get_if<msg::Open>(&send->message))
        said.push_back(to + "open " + std::to_string(m->place.node_rank) + "/" + std::to_string(m->place.nodes));
      if (std::holds_alternative<msg::Stop>(send->message)) said.push_back(to + "stop");
      if (const auto* m = std::get_if<msg::End>(&send->message))
        said.push_back(to + "end " + std::to_string(m->verdict.exit_code));
      if (const auto* m = std::get_if<msg::Refused>(&send->message)) said.push_back(to + "refused: " + m->reason);
      if (const auto* m = std::get_if<msg::Waiting>(&send->message))
        said.push_back(to + (m->spare ? "spare" : "waits " + std::to_string(m->nodes)));
    }
  }
  void hear(MemberId id, RoundMessage m) { take(core.step(round_event::Said{id, std::move(m)}, now)); }
  void join(MemberId id) { hear(id, msg::Join{info(id)}); }
  void gone(MemberId id) { take(core.step(round_event::Gone{id}, now)); }
  void later(Duration d) {
    now += d;
    take(core.step(round_event::Tick{}, now));
  }
  void over(MemberId id, bool ok) { hear(id, msg::Over{core.round(), ok}); }
};

using Words = std::vector<std::string>;

}  // namespace dtrain::test
