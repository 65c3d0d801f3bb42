// JoinCore: a table of phases and events, and then its times and words.
#include "launcher/hosting/join_core.h"

#include <string>
#include <vector>

#include "launcher/job/group_core.h"
#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using namespace std::chrono_literals;
namespace ev = join_event;
namespace act = join_action;
using Phase = JoinCore::Phase;

const HostPlace kHost{{"10.0.0.1"}, 29400, 3}, kNext{{"10.0.0.2"}, 29500, 4}, kOld{{"10.0.0.9"}, 29400, 2};

// One node on its way into a job.
struct Node {
  explicit Node(JoinSettings settings) : core(std::move(settings)) {}

  Node& step(const JoinEvent& event) {
    done = core.step(event, scene, now);
    return *this;
  }
  // What was done, in words.
  std::string names() const {
    const std::vector<std::string> all{"find", "dial", "hang up", "wait", "part", "give up", "look at the port"};
    std::string text;
    for (const auto& action : done) text += (text.empty() ? "" : ", ") + all[action.index()];
    return text;
  }
  template <class Action>
  const Action& did() const {
    for (const auto& action : done)
      if (const auto* one = std::get_if<Action>(&action)) return *one;
    FAIL("not done; but: " << names());
    throw 0;
  }
  std::string reason() const { return did<act::GiveUp>().verdict.reason; }

  Node& bring_to(Phase phase) {
    if (phase == Phase::start) return *this;
    if (phase == Phase::over) return core.close(), *this;
    step(ev::Begin{});
    if (phase == Phase::finding) return *this;
    if (phase == Phase::waiting) return step(ev::Nobody{"nobody"});
    step(ev::Found{kHost});
    if (phase == Phase::dialing) return *this;
    step(ev::Opened{kHost.term});
    if (phase == Phase::in_round) return *this;
    return step(ev::LinkLost{"it left"});
  }

  MonoTime now = MonoTime{} + 1s;
  JoinScene scene{false, true, "node-a:29400", ""};
  JoinCore core;
  std::vector<JoinAction> done;
};

JoinSettings across() { return {600s, true, true, false, 5s, ""}; }
JoinSettings on_one_host() { return {600s, false, false, true, 5s, "; 127.0.0.1 is only this host"}; }

Node at(Phase phase, JoinSettings settings = across()) {
  Node node(std::move(settings));
  node.bring_to(phase);
  REQUIRE(node.core.phase() == phase);
  return node;
}

}  // namespace

TEST_CASE("joining: what each event does in each phase") {
  struct Row {
    const char* name;
    JoinEvent event;
    // In finding, dialing, waiting, in a round and parting: what is done, and the phase after it.
    std::vector<std::pair<std::string, Phase>> cells;
  };
  const std::vector<Phase> phases{Phase::finding, Phase::dialing, Phase::waiting, Phase::in_round, Phase::parting};
  const auto always = [&](const std::string& done, Phase after) {
    return std::vector<std::pair<std::string, Phase>>(phases.size(), {done, after});
  };
  // Nothing happens to a node that has a round, or whose workers still end.
  const auto if_it_may_join = [](const std::string& done, Phase after) {
    return std::vector<std::pair<std::string, Phase>>{
        {done, after}, {done, after}, {done, after}, {"", Phase::in_round}, {"", Phase::parting}};
  };
  const auto if_it_dials = [](const std::string& done, Phase after) {
    return std::vector<std::pair<std::string, Phase>>{
        {"", Phase::finding}, {done, after}, {"", Phase::waiting}, {"", Phase::in_round}, {"", Phase::parting}};
  };
  const std::vector<std::pair<std::string, Phase>> nothing{
      {"", Phase::finding}, {"", Phase::dialing}, {"", Phase::waiting}, {"", Phase::in_round}, {"", Phase::parting}};
  const std::vector<Row> table{
      {"Begin", ev::Begin{}, always("find", Phase::finding)},
      {"Found", ev::Found{kNext}, if_it_may_join("dial", Phase::dialing)},
      {"Found here", ev::Found{kNext, true}, if_it_may_join("dial", Phase::dialing)},
      {"Nobody", ev::Nobody{"no"}, if_it_may_join("wait", Phase::waiting)},
      {"NoHost", ev::NoHost{"no"}, always("give up", Phase::over)},
      {"Withdraw", ev::Withdraw{}, if_it_may_join("hang up, wait", Phase::waiting)},
      {"Unreachable", ev::Unreachable{"no", true}, if_it_dials("wait", Phase::waiting)},
      {"TurnedAway", ev::TurnedAway{"no"}, if_it_dials("wait", Phase::waiting)},
      {"TurnedAway for good", ev::TurnedAway{"no", true}, if_it_dials("give up", Phase::over)},
      {"Refused", ev::Refused{"no"}, always("give up", Phase::over)},
      {"Refused for now", ev::Refused{"no", true}, always("wait", Phase::waiting)},
      {"Standing", ev::Standing{}, nothing},
      {"Opened", ev::Opened{4}, always("", Phase::in_round)},
      {"LinkLost", ev::LinkLost{"no"}, always("part", Phase::parting)},
      {"Failed", ev::Failed{"no"}, always("give up", Phase::over)},
      {"Tick before its time", ev::Tick{}, nothing},
  };
  for (const Row& row : table) {
    for (std::size_t i = 0; i < phases.size(); ++i) {
      INFO(row.name << " in phase " << int(phases[i]));
      Node node = at(phases[i]);
      node.step(row.event);
      CHECK(node.names() == row.cells[i].first);
      CHECK(node.core.phase() == row.cells[i].second);
    }
    INFO(row.name << " after the end");
    Node ended = at(Phase::over);
    CHECK(ended.step(row.event).names().empty());
    CHECK(ended.core.over());
  }
}

TEST_CASE("joining: pauses double up to a limit, and each ends with another look") {
  for (const bool across_hosts : {true, false}) {
    Node node = at(Phase::finding, across_hosts ? across() : on_one_host());
    std::vector<Duration> pauses;
    for (int i = 0; i < 9; ++i) {
      node.step(ev::Nobody{"nobody"});
      REQUIRE(node.core.deadline());
      pauses.push_back(*node.core.deadline() - node.now);
      node.now = *node.core.deadline() - 1ns;
      CHECK(node.step(ev::Tick{}).names().empty());
      node.now += 1ns;
      CHECK(node.step(ev::Tick{}).names() == "find");
    }
    const std::vector<Duration> expected =
        across_hosts ? std::vector<Duration>{10ms, 20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1s, 1s}
                     : std::vector<Duration>{10ms, 20ms, 40ms, 80ms, 100ms, 100ms, 100ms, 100ms, 100ms};
    CHECK(pauses == expected);
  }
}

TEST_CASE("joining: the time is up, in the middle of a pause or of a search") {
  Node waits = at(Phase::finding);
  waits.now += 600s - 5ms;
  waits.step(ev::Nobody{"no route"});
  CHECK(*waits.core.deadline() == waits.now + 5ms);
  CHECK(waits.did<act::Wait>().until == waits.now + 5ms);
  waits.now += 5ms;
  waits.step(ev::Tick{});
  CHECK(waits.did<act::GiveUp>().verdict.how == JobEnd::timeout);
  CHECK(waits.did<act::GiveUp>().verdict.exit_code == 124);
  CHECK(waits.reason() ==
        "nobody has opened the job at node-a:29400 within 600 s (--rdzv-conf join_timeout): no route");

  Node finds = at(Phase::finding);
  finds.now = *finds.core.deadline();
  finds.step(ev::Tick{});
  CHECK(finds.reason().ends_with(": there is no host yet"));

  // An answer that comes in that moment is the last.
  Node late = at(Phase::dialing, on_one_host());
  late.now += 600s;
  late.step(ev::Unreachable{"refused", true});
  CHECK(late.reason() ==
        "nobody has opened the job at node-a:29400 within 600 s (--rdzv-conf timeout); 127.0.0.1 is only this host");
}

TEST_CASE("joining: a node that parts has all the time again, and joins the next host") {
  Node node = at(Phase::parting);
  CHECK(node.did<act::Part>().reason == "the agent that hosts the job at node-a:29400 is gone: it left");
  CHECK(node.did<act::Part>().grace == 5s);
  CHECK(node.core.hostless());
  node.now += 1000s;
  node.step(ev::Begin{});
  CHECK(*node.core.deadline() == node.now + 600s);
  node.step(ev::Found{kOld});
  CHECK(node.did<act::Wait>().why == "the host that was found is an old one");
  CHECK(node.core.host() == kHost);
  CHECK(node.core.outdated(kOld.term));
  node.step(ev::Found{kNext});
  CHECK(node.did<act::Dial>().host == kNext);
  node.step(ev::Opened{kNext.term});
  CHECK_FALSE(node.core.hostless());
  CHECK(node.core.outdated(kHost.term));
}

TEST_CASE("joining: a node that becomes the host while its workers end dials itself after that") {
  Node node = at(Phase::parting);
  node.scene.hosts = true;
  CHECK(node.step(ev::Found{kNext, true}).names().empty());
  node.step(ev::Begin{});
  CHECK(node.did<act::Dial>().here);
  CHECK(node.did<act::Dial>().host == kNext);
}

TEST_CASE("joining: where nobody can follow, the lost host is dialed again, and who refuses there is not awaited") {
  Node node = at(Phase::parting);
  node.scene.survives = false;
  node.scene.missing = "too few nodes";
  node.step(ev::Begin{});
  CHECK(node.did<act::Dial>().host == kHost);
  node.step(ev::Unreachable{"no route to host", false});
  CHECK(node.did<act::Wait>().why == "no route to host");
  node.now = *node.core.deadline();
  CHECK(node.step(ev::Tick{}).names() == "dial");
  node.step(ev::Unreachable{"connection refused", true});
  CHECK(node.did<act::GiveUp>().verdict.how == JobEnd::lost);
  CHECK(node.reason() == "the agent that hosts the job at node-a:29400 is gone: it left; too few nodes");

  Node at_server = at(Phase::in_round);
  at_server.scene.survives = false;
  at_server.step(ev::Standing{}).step(ev::LinkLost{""});
  CHECK(at_server.did<act::Part>().reason == "the rendezvous server at node-a:29400 is gone");
  at_server.step(ev::Begin{}).step(ev::Unreachable{"connection refused", true});
  CHECK(at_server.did<act::Wait>().why == "nobody at node-a:29400 yet");
  at_server.now += 600s;
  at_server.step(ev::Tick{});
  CHECK(at_server.did<act::GiveUp>().verdict.exit_code == 125);
  CHECK(at_server.reason() ==
        "the rendezvous server at node-a:29400 is gone; nobody was found at node-a:29400 for 600 s "
        "(--rdzv-conf join_timeout): nobody at node-a:29400 yet");
}

TEST_CASE("joining: no host will come") {
  Node lost = at(Phase::parting);
  lost.scene.missing = "too few nodes";
  CHECK(lost.step(ev::NoHost{"none is left"}).reason().ends_with("is gone: it left; none is left"));
  Node first = at(Phase::finding);
  CHECK(first.step(ev::NoHost{"the key is strange"}).reason() == "the key is strange");
  CHECK(first.did<act::GiveUp>().verdict.how == JobEnd::refused);
}

TEST_CASE("joining: who may not look for a host again ends with its host") {
  struct Row {
    bool across_hosts, rejoin, hosts, survives;
    const char* done;
  };
  for (const Row& row : {Row{true, false, false, true, "give up"}, Row{true, true, true, false, "give up"},
                         Row{true, true, true, true, "part"}, Row{true, true, false, false, "part"},
                         Row{false, false, false, false, "give up"}}) {
    JoinSettings settings = across();
    settings.across_hosts = row.across_hosts;
    settings.rejoin = row.rejoin;
    Node node = at(Phase::in_round, settings);
    node.scene.hosts = row.hosts;
    node.scene.survives = row.survives;
    CHECK(node.step(ev::LinkLost{""}).names() == row.done);
    if (node.names() != "give up") continue;
    // Across hosts the others may go on, so the workers have little time.
    CHECK(node.did<act::GiveUp>().grace == (row.across_hosts ? std::optional<Duration>(5s) : std::nullopt));
  }
}

TEST_CASE("joining: an agent that did not run blames nobody else") {
  for (bool rejoin : {true, false}) {
    JoinSettings settings = across();
    settings.rejoin = rejoin;
    Node node = at(Phase::in_round, settings);
    node.step(ev::LinkLost{"it was closed", true});
    CHECK((rejoin ? node.did<act::Part>().reason : node.reason()) == kDidNotRun);
  }
}

TEST_CASE("joining: a node that is turned away again and again gives up, and counts anew when it parts") {
  const auto attempts = [](Node& node) {
    int count = 1;
    for (; node.step(ev::TurnedAway{"", false, true}).names() == "wait"; ++count) {
      node.now = *node.core.deadline();
      node.step(ev::Tick{}).step(ev::Found{kHost});
    }
    return count;
  };
  Node far = at(Phase::dialing);
  CHECK(attempts(far) == 9);
  CHECK(far.reason() ==
        "cannot join the job at node-a:29400: it closes the connection; is it the port of another program, such as "
        "torchrun? All nodes need the same launcher");
  Node near = at(Phase::dialing, on_one_host());
  CHECK(attempts(near) == 12);
  CHECK(near.names() == "look at the port");

  Node again = at(Phase::dialing);
  for (int i = 0; i < 8; ++i) {
    again.step(ev::TurnedAway{"", false, true});
    again.now = *again.core.deadline();
    again.step(ev::Tick{}).step(ev::Found{kHost});
  }
  again.step(ev::LinkLost{""}).step(ev::Begin{}).step(ev::Found{kHost});
  CHECK(attempts(again) == 9);

  Node speaks = at(Phase::dialing);
  CHECK(speaks.step(ev::TurnedAway{"OpenSSL is missing", true, false}).reason() ==
        "cannot join the job at node-a:29400: OpenSSL is missing");
}

TEST_CASE("joining: what a host refuses is said with the place") {
  Node node = at(Phase::dialing);
  node.step(ev::Refused{"another --nnodes"});
  CHECK(node.reason() == "node-a:29400: another --nnodes");
  CHECK(node.did<act::GiveUp>().verdict.how == JobEnd::refused);
  CHECK(node.did<act::GiveUp>().verdict.exit_code == 125);
}

}  // namespace dtrain::launcher
