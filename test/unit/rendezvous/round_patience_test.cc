// How often a round that runs is stopped for nodes that come (round_patience.h).
#include "rendezvous/round_core.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

RoundSettings settings(int min, int max, int restarts = 0) {
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

  NodeInfo info(MemberId id) const {
    return {own.job,       "a" + std::to_string(id), "h",  int(id), "r", "", 2, -1, own.min_nodes,
            own.max_nodes, own.max_restarts,         50000};
  }
  void take(const std::vector<RoundAction>& actions) {
    said.clear();
    for (const auto& action : actions) {
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

}  // namespace

TEST_CASE("a node that is lost again and again waits longer each time before the others stop for it") {
  Job job(settings(1, 2));
  job.own.awaits_others = true;
  job.join(1);
  job.join(2);
  MemberId connection = 2;
  const auto lost = [&] {
    job.gone(connection);
    job.over(1, false);
    REQUIRE(job.core.phase() == RoundPhase::running);
  };
  const auto back = [&] {
    NodeInfo same = job.info(2);
    same.attempt = int(++connection);
    job.hear(connection, msg::Join{same});
  };
  for (int i = 0; i < 2; ++i) {
    lost();
    back();
    REQUIRE(job.said.front() == "1: stop");
    job.over(1, false);
  }
  for (const Duration wait : {30s, 60s, 120s}) {
    lost();
    job.now += 1s;
    back();
    REQUIRE(job.said == Words{std::to_string(connection) + ": spare"});
    REQUIRE(job.core.deadline());
    CHECK(*job.core.deadline() == job.now - 1s + wait);
    job.later(wait - 1001ms);
    CHECK(job.said.empty());
    job.later(1ms);
    REQUIRE(job.said == Words{"1: stop"});
    job.over(1, false);
    CHECK(job.said.size() == 2);
    CHECK_FALSE(job.core.deadline());
  }
  // Half an hour later nobody remembers.
  job.now += 30min;
  lost();
  back();
  CHECK(job.said.front() == "1: stop");
}

TEST_CASE("a node that is lost again and again is taken at once where it is needed") {
  RoundSettings s = settings(2, 2);
  s.awaits_others = true;
  Job job(s);
  job.join(1);
  job.join(2);
  for (int i = 0; i < 6; ++i) {
    job.gone(2);
    job.over(1, false);
    job.join(2);
    REQUIRE(job.core.phase() == RoundPhase::running);
    REQUIRE(job.said.size() == 2);
  }
}

TEST_CASE("of many nodes that come one by one some come in together") {
  Job job(settings(1, 20));
  job.join(1);
  job.later(30s);
  MemberId next = 2;
  const auto goes_on = [&] {
    for (MemberId id = 1; id < next; ++id)
      if (job.core.phase() == RoundPhase::stopping) job.over(id, false);
  };
  for (int i = 0; i < 5; ++i, job.now += 1s) {
    job.join(next++);
    REQUIRE(job.core.phase() == RoundPhase::stopping);
    goes_on();
  }
  for (int i = 0; i < 3; ++i) {
    job.join(next);
    CHECK(job.said == Words{std::to_string(next) + ": spare"});
    ++next;
  }
  CHECK(*job.core.deadline() == job.now - 5s + 30s);
  job.later(24s);
  CHECK(job.said.empty());
  // One that goes meanwhile is not missed.
  job.gone(next - 1);
  job.later(1s);
  CHECK(job.core.phase() == RoundPhase::stopping);
  goes_on();
  CHECK(job.said.size() == 8);
}
