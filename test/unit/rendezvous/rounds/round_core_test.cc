// RoundCore's decisions, one story each; test/sim has the rest.
#include "rendezvous/rounds/round_core.h"

#include "test/support/catch.h"
#include "test/unit/rendezvous/round_job.h"

using namespace dtrain;
using namespace std::chrono_literals;
using test::Job, test::settings, test::Words;

TEST_CASE("a round opens when all are there, and the job ends when all workers ended well") {
  Job job(settings(2, 2));
  job.join(1);
  CHECK(job.said == Words{"1: waits 1"});
  job.join(2);
  CHECK(job.said == Words{"1: open 0/2", "2: open 1/2"});
  CHECK_FALSE(job.core.deadline());
  job.over(1, true);
  CHECK(job.said.empty());
  job.over(2, true);
  CHECK(job.said == Words{"1: end 0", "2: end 0"});
}

TEST_CASE("enough nodes wait for a last call, too few until the time is over") {
  Job job(settings(2, 3));
  job.join(1);
  CHECK(*job.core.deadline() == job.now + 600s);
  job.join(2);
  CHECK(*job.core.deadline() == job.now + 30s);
  job.gone(2);
  CHECK(*job.core.deadline() == job.now + 600s);
  job.join(3);
  job.later(30s);
  CHECK(job.said == Words{"1: open 0/2", "3: open 1/2"});
  Job lonely(settings(2, 3));
  lonely.join(1);
  lonely.later(600s);
  CHECK(lonely.said == Words{"1: end 124"});
}

TEST_CASE("a failure stops everybody, and a round is not opened before all have stopped") {
  Job job(settings(2, 2, 1));
  job.join(1);
  job.join(2);
  job.hear(2, msg::Failed{0, 0, "exit code 3", 3, false});
  CHECK(job.said == Words{"1: stop"});
  job.over(1, false);
  CHECK(job.said.empty());
  job.hear(2, msg::Over{7, false});  // of another round
  CHECK(job.said.empty());
  job.over(2, false);
  CHECK(job.said == Words{"1: open 0/2", "2: open 1/2"});
  CHECK(job.core.restarts() == 1);
  job.hear(1, msg::Failed{1, 0, "exit code 4", 4, false});
  job.over(1, false);
  job.over(2, false);
  CHECK(job.said == Words{"1: end 4", "2: end 4"});
}

TEST_CASE("what cannot be started is not started again") {
  Job job(settings(2, 2, 5));
  job.join(1);
  job.join(2);
  job.hear(2, msg::Failed{0, 0, "not started", 127, true});
  job.over(1, false);
  job.over(2, false);
  CHECK(job.said == Words{"1: end 127", "2: end 127"});
}

TEST_CASE("a lost node costs no restart while enough are left") {
  Job job(settings(1, 3));
  for (MemberId id = 1; id <= 3; ++id) job.join(id);
  job.gone(2);
  CHECK(job.said == Words{"1: stop", "3: stop"});
  job.over(3, false);
  job.over(1, false);
  CHECK(job.said == Words{"1: open 0/2", "3: open 1/2"});
  CHECK(job.core.restarts() == 0);
  Job full(settings(2, 2, 5));
  full.join(1);
  full.join(2);
  full.gone(2);
  full.over(1, false);
  CHECK(full.said == Words{"1: end 125"});
}

TEST_CASE("a new node makes a new round where there is room, else it is a spare") {
  Job job(settings(1, 2));
  job.join(1);
  job.later(30s);
  CHECK(job.said == Words{"1: open 0/1"});
  job.join(2);
  CHECK(job.said == Words{"1: stop", "2: waits 1"});
  job.over(1, false);
  CHECK(job.said == Words{"1: open 0/2", "2: open 1/2"});
  job.join(3);
  CHECK(job.said == Words{"3: spare"});
  job.gone(2);
  job.over(1, false);
  CHECK(job.said == Words{"1: open 0/2", "3: open 1/2"});
  job.over(3, true);
  job.join(4);
  CHECK(job.said == Words{"4: spare"});
  job.over(1, true);
  CHECK(job.said == Words{"1: end 0", "3: end 0", "4: end 0"});
}

TEST_CASE("a node that the user stops leaves with its signal, and without the host there is no job") {
  Job job(settings(1, 2));
  job.join(1);
  job.join(2);
  job.hear(2, msg::Leaving{2});
  CHECK(job.said == Words{"1: stop"});
  job.over(2, false);
  CHECK(job.said == Words{"2: end 130"});
  job.over(1, false);
  CHECK(job.said == Words{"1: open 0/1"});
  job.hear(1, msg::Leaving{15});
  job.over(1, false);
  CHECK(job.said == Words{"1: end 143"});
}

TEST_CASE("a node whose workers have ended well leaves without harm, unless it hosts the others") {
  Job job(settings(2, 3));
  for (MemberId id = 1; id <= 3; ++id) job.join(id);
  job.over(2, true);
  job.hear(2, msg::Leaving{15});
  CHECK(job.said == Words{"2: end 143"});
  job.join(4);  // not worth a new round
  CHECK(job.said == Words{"4: spare"});
  job.over(1, true);
  job.over(3, true);
  CHECK(job.said == Words{"1: end 0", "3: end 0", "4: end 0"});
  Job hosts(settings(2, 2));
  hosts.join(1);
  hosts.join(2);
  hosts.over(1, true);
  hosts.hear(1, msg::Leaving{15});
  CHECK(hosts.said == Words{"2: stop"});
}

TEST_CASE("a job that has ended asks everybody to try again: its endpoint is about to be free") {
  Job job(settings(1, 1));
  job.join(1);
  job.over(1, true);
  NodeInfo stranger = job.info(9);
  stranger.job = "k";
  const auto answer = job.core.step(round_event::Said{9, msg::Join{stranger}}, job.now);
  REQUIRE(answer.size() == 1);
  CHECK(std::get<msg::Refused>(std::get<round_action::Send>(answer[0]).message).try_again);
}

TEST_CASE("a node that does not stop in time is given up") {
  Job job(settings(1, 2, 1));
  job.join(1);
  job.join(2);
  job.hear(1, msg::Failed{0, 0, "exit code 3", 3, false});
  job.over(1, false);
  job.later(60s);
  CHECK(job.said == Words{"2: end 125", "1: open 0/1"});
}

TEST_CASE("who does not fit is refused with a reason") {
  Job job(settings(2, 2));
  job.join(1);
  auto refused = [&](auto change) {
    NodeInfo info = job.info(9);
    change(info);
    job.hear(9, msg::Join{info});
    return job.said.at(0);
  };
  CHECK(refused([](NodeInfo& i) { i.job = "k"; }) ==
        "9: refused: job j has this endpoint; choose another port for job k, or the same --rdzv-id to join it");
  CHECK(refused([](NodeInfo& i) { i.max_nodes = 3; }).find("--nnodes 2:3 here, but 2 at the node") !=
        std::string::npos);
  CHECK(refused([](NodeInfo& i) { i.max_restarts = 3; }).find("--max-restarts 3 here, but 0") != std::string::npos);
  CHECK(refused([](NodeInfo& i) { i.wanted_rank = 1; }).find("same --rdzv-backend") != std::string::npos);
  CHECK(refused([](NodeInfo& i) { i.agent_id = "a1"; }).find("the same agent") != std::string::npos);
  CHECK(refused([](NodeInfo& i) { i.workers = 0; }).find("makes no sense") != std::string::npos);
  CHECK(refused([](NodeInfo& i) { i.last.round = 2'000'000'000; }).find("makes no sense") != std::string::npos);
  CHECK(refused([](NodeInfo& i) { i.last.restarts = -1; }).find("makes no sense") != std::string::npos);
}

TEST_CASE("who has heard a later host does not join an older one") {
  RoundSettings own = settings(1, 1);
  own.term = 3;
  Job job(own);
  NodeInfo ahead = job.info(1);
  ahead.last.term = 4;
  const auto refused = job.core.step(round_event::Said{1, msg::Join{ahead}}, job.now);
  REQUIRE(refused.size() == 1);
  CHECK(std::get<msg::Refused>(std::get<round_action::Send>(refused[0]).message).try_again);
  ahead.last.term = 2;
  const auto opened = job.core.step(round_event::Said{1, msg::Join{ahead}}, job.now);
  CHECK(std::get<msg::Open>(std::get<round_action::Send>(opened.at(1)).message).term == 3);
}

TEST_CASE("a standing server whose clock went back between two lives takes back who was there in the first") {
  RoundSettings own = settings(1, 3);
  own.host_agent = "";
  own.term = 3;
  Job job(own);
  auto terms = [&] { return job.core.term(); };
  job.join(1);  // it was not there before
  CHECK(terms() == 3);
  NodeInfo before = job.info(2);
  before.last = {7, 5, 0, 2, 0};
  job.hear(2, msg::Join{before});
  CHECK(terms() == 8);
  CHECK(job.core.members() == 2);
  before = job.info(3);
  before.last.term = std::uint64_t{1} << 62;
  job.hear(3, msg::Join{before});
  CHECK(job.said == Words{"3: refused: its description makes no sense"});
  CHECK(terms() == 8);
}

TEST_CASE("nodes of a static job have the ranks they name") {
  RoundSettings fixed = settings(2, 2);
  fixed.fixed_ranks = true;
  Job job(fixed);
  NodeInfo second = job.info(2);
  second.wanted_rank = 1;
  NodeInfo first = job.info(1);
  first.wanted_rank = 0;
  job.hear(2, msg::Join{second});
  second.agent_id = "other";
  job.hear(3, msg::Join{second});
  CHECK(job.said == Words{"3: refused: --node-rank 1 is taken by the agent with pid 2 on host h"});
  second.wanted_rank = 2;
  job.hear(3, msg::Join{second});
  CHECK(job.said == Words{"3: refused: --node-rank 2 of 2 nodes: it counts from 0"});
  job.hear(1, msg::Join{first});
  CHECK(job.said == Words{"1: open 0/2", "2: open 1/2"});
}

TEST_CASE("after a node was lost across hosts, the next round waits until that node cannot have workers any more") {
  Job job(settings(2, 3));
  for (MemberId id : {1, 2, 3}) job.join(id);
  job.take(job.core.step(round_event::Gone{3, job.now + 2500ms}, job.now));
  CHECK(job.said == Words{"1: stop", "2: stop"});
  job.over(1, false);
  job.over(2, false);
  CHECK(job.said.empty());
  CHECK(*job.core.deadline() == job.now + 2500ms);
  job.later(2499ms);
  CHECK(job.said.empty());
  job.later(1ms);
  CHECK(job.said == Words{"1: open 0/2", "2: open 1/2"});
}

TEST_CASE("many nodes gather with few messages, and all hear of the progress in the end") {
  const int nodes = 1000;
  Job job(settings(nodes, nodes));
  std::size_t messages = 0;
  for (int id = 1; id < nodes; ++id) {
    job.join(MemberId(id));
    messages += job.said.size();
    CHECK(job.said.back() == std::to_string(id) + ": waits " + std::to_string(id));  // the newcomer hears at once
  }
  CHECK(messages < 4 * nodes);
  REQUIRE(job.core.deadline());
  CHECK(*job.core.deadline() == job.now + 10s);
  job.later(10s);
  CHECK(job.said.size() == nodes - 1);
  CHECK(job.said.front() == "1: waits 999");
  CHECK(*job.core.deadline() == job.now + 590s);
  job.gone(5);
  CHECK(job.said.empty());
  CHECK(*job.core.deadline() == job.now + 10s);
  job.later(580s);
  CHECK(job.said.size() == nodes - 2);
  CHECK(job.said.front() == "1: waits 998");
  job.later(10s);
  CHECK(job.said.front() == "1: end 124");
}

TEST_CASE("below MIN after a loss, others are awaited, and told how long") {
  RoundSettings own = settings(3, 3);
  own.awaits_others = true;
  Job job(own);
  for (MemberId id : {1, 2, 3}) job.join(id);
  job.take(job.core.step(round_event::Gone{2, job.now + 2500ms}, job.now));
  job.over(1, false);
  job.over(3, false);
  CHECK(job.said.empty());
  job.later(2500ms);
  CHECK(job.said == Words{"1: waits 2", "3: waits 2"});
  CHECK(job.core.phase() == RoundPhase::gathering);
  job.hear(3, msg::Leaving{15});
  CHECK(job.said == Words{"3: end 143", "1: waits 1"});
  job.join(4);
  job.join(5);
  CHECK(job.said == Words{"1: open 0/3", "4: open 1/3", "5: open 2/3"});
  CHECK(job.core.restarts() == 0);
  job.gone(5);
  job.over(1, false);
  job.over(4, false);
  const auto end = job.core.step(round_event::Tick{}, job.now += 600s);
  const Verdict verdict = std::get<msg::End>(std::get<round_action::Send>(end.at(0)).message).verdict;
  CHECK(verdict.exit_code == 125);
  CHECK(verdict.reason ==
        "node 2 (host h, agent 5) was lost: the connection to its agent is gone; 2 of 3 nodes are left, and no other "
        "came within 600 s (--rdzv-conf join_timeout)");
}

TEST_CASE("after a loss that leaves MIN, a round with more waits for the lost only a moment") {
  RoundSettings own = settings(2, 4);
  own.awaits_others = true;
  Job job(own);
  for (MemberId id : {1, 2, 3, 4}) job.join(id);
  for (MemberId id : {2, 3, 4}) job.gone(id);
  job.over(1, false);
  CHECK(job.said == Words{"1: waits 1"});
  job.join(5);
  CHECK(*job.core.deadline() == job.now + own.regather_timeout);
  job.later(own.regather_timeout);
  CHECK(job.said == Words{"1: open 0/2", "5: open 1/2"});
}

TEST_CASE("a node comes back before it was missed, and keeps its place") {
  Job job(settings(1, 3));
  for (MemberId id : {1, 2, 3}) job.join(id);
  NodeInfo back = job.info(2);
  back.last = {0, 0, 1, 3, 0};
  job.hear(9, msg::Join{back});
  CHECK(job.said == Words{"1: stop", "3: stop", "9: waits 2"});
  job.gone(2);  // its old connection, much later
  job.over(1, false);
  job.over(3, false);
  CHECK(job.said == Words{"1: open 0/3", "9: open 1/3", "3: open 2/3"});
  CHECK(job.core.restarts() == 0);
}

TEST_CASE("a node of a static job that comes back before it was missed is not refused for its own number") {
  RoundSettings fixed = settings(3, 3);
  fixed.fixed_ranks = true;
  Job job(fixed);
  NodeInfo first = job.info(1), second = job.info(2);
  first.wanted_rank = 0;
  second.wanted_rank = 1;
  job.hear(1, msg::Join{first});
  job.hear(2, msg::Join{second});
  // Its first connection broke, and the host does not know that yet.
  second.attempt = 1;
  job.hear(9, msg::Join{second});
  for (const auto& said : job.said) CHECK(said.find("refused") == std::string::npos);
  CHECK(job.core.members() == 2);
  NodeInfo third = job.info(3);
  third.wanted_rank = 2;
  job.hear(3, msg::Join{third});
  CHECK(job.said == Words{"1: open 0/3", "9: open 1/3", "3: open 2/3"});
}

TEST_CASE("a failure that comes of a loss or of a node that leaves is not charged") {
  for (const bool leaves : {false, true}) {
    Job job(settings(2, 3, 0));
    for (MemberId id : {1, 2, 3}) job.join(id);
    job.hear(1, msg::Failed{0, 0, "exit code 1", 1, false});
    if (leaves) {
      job.hear(3, msg::Leaving{15, true});
      job.over(3, false);
      CHECK(job.said == Words{"3: end 143"});
    } else {
      job.gone(3);
    }
    job.over(1, false);
    job.over(2, false);
    CHECK(job.said == Words{"1: open 0/2", "2: open 1/2"});
    CHECK(job.core.restarts() == 0);
  }
  Job job(settings(2, 3, 0));
  for (MemberId id : {1, 2, 3}) job.join(id);
  job.hear(1, msg::Failed{0, 0, "exit code 1", 1, false});
  job.hear(3, msg::Leaving{15, false});  // its user has read of the failure
  for (MemberId id : {1, 2, 3}) job.over(id, false);
  CHECK(job.said == Words{"1: end 1", "2: end 1", "3: end 1"});
}

TEST_CASE("a host that follows another goes on where that one was") {
  RoundSettings own = settings(2, 4, 3);
  own.host_agent = "a2";
  own.term = 2;
  own.after = {4, 1, 4, MonoTime{} + 5s};
  Job job(own);
  auto back = [&](MemberId id, LastPlace last) {
    NodeInfo info = job.info(id);
    info.last = last;
    job.hear(id, msg::Join{info});
  };
  back(4, {1, 4, 3, 4, 1});
  back(3, {1, 5, 2, 4, 2});  // it has heard of one round more
  back(2, {1, 4, 1, 4, 1});
  CHECK(*job.core.deadline() == MonoTime{} + 5s);
  job.later(5s);
  CHECK(job.said == Words{"2: open 0/3", "3: open 1/3", "4: open 2/3"});
  CHECK(job.core.round() == 6);
  CHECK(job.core.restarts() == 2);
}

TEST_CASE("a host that follows another does not wait for that one's node when all others are there") {
  RoundSettings own = settings(2, 4, 3);
  own.term = 2;
  own.after = {4, 1, 4, MonoTime{} + 1s};
  Job job(own);
  for (MemberId id : {1, 2}) job.join(id);
  CHECK(*job.core.deadline() == MonoTime{} + own.regather_timeout);
  job.join(3);
  CHECK(*job.core.deadline() == MonoTime{} + 1s);
  job.later(1s);
  CHECK(job.said == Words{"1: open 0/3", "2: open 1/3", "3: open 2/3"});
}

TEST_CASE("it tells who is there, who is missing, and why it has decided what") {
  RoundSettings fixed = settings(4, 4, 1);
  fixed.fixed_ranks = true;
  fixed.names = {"login", "node07"};
  Job job(fixed);
  auto join = [&](MemberId id, int rank) {
    NodeInfo info = job.info(id);
    info.wanted_rank = rank;
    return job.core.step(round_event::Said{id, msg::Join{info}}, job.now);
  };
  const auto told = join(1, 0);
  REQUIRE(told.size() == 1);
  const auto waiting = std::get<msg::Waiting>(std::get<round_action::Send>(told[0]).message);
  CHECK(waiting.names == "missing node07, node 2, node 3");
  job.now += 2s;
  CHECK(job.core.facts(job.now).missing == waiting.names);
  CHECK(job.core.facts(job.now).left_ms == 598000);
  for (int rank : {2, 1, 3}) join(MemberId(rank) + 1, rank);
  job.now += 1s;
  JobFacts facts = job.core.facts(job.now);
  CHECK(facts.phase == "running");
  CHECK(facts.phase_ms == 1000);
  CHECK(facts.missing.empty());
  REQUIRE(facts.list.size() == 4);
  CHECK(facts.list[3] == NodeFacts{"h", 4, 3, 6, 2, "running"});
  CHECK(facts.decisions.back().text == "round 0 opens with 4 nodes: all nodes are there");

  job.hear(2, msg::Failed{0, 0, "rank 2 failed", 3, false});
  for (MemberId id : {1, 2, 3, 4}) job.over(id, false);
  facts = job.core.facts(job.now);
  REQUIRE(facts.decisions.size() >= 2);
  CHECK(facts.decisions[facts.decisions.size() - 2].text ==
        "round 0 is stopped: node 1 (host h, agent 2): rank 2 failed");
  CHECK(facts.decisions.back().text ==
        "round 1 opens with 4 nodes, restart 1 of 1: node 1 (host h, agent 2): rank 2 failed");
}

TEST_CASE("of nodes without numbers those that are there are named, by host, and not all of very many") {
  Job job(settings(40, 40));
  for (MemberId id = 1; id <= 3; ++id) job.join(id);
  const auto names = [&](MemberId id) {
    NodeInfo info = job.info(id);
    info.host = "host" + std::to_string(id);
    const auto actions = job.core.step(round_event::Said{id, msg::Join{info}}, job.now);
    return std::get<msg::Waiting>(std::get<round_action::Send>(actions.at(0)).message).names;
  };
  CHECK(names(4) == "here: h (3), host4");
  for (MemberId id = 5; id <= 15; ++id) names(id);
  CHECK(names(16) == "here: h (3), host10, host11, host12 and 10 more");
  CHECK(names(17).empty());  // to each newcomer alone, which must not cost the square of their number
}

// ---- a standing server hosts the rounds -----------------------------------------------------------------------------

namespace {

RoundSettings standing(int min, int max) {
  RoundSettings s = settings(min, max);
  s.host_agent.clear();
  s.awaits_others = true;
  s.join_timeout = 60s;
  return s;
}

}  // namespace

TEST_CASE("a node whose engine has gone is lost: the others go on, or wait for another") {
  Job job(standing(2, 3));
  for (const MemberId id : {1, 2, 3}) job.join(id);
  job.hear(1, msg::Leaving{0, true});
  CHECK(job.said == Words{"2: stop", "3: stop"});
  job.over(1, false);
  CHECK(job.said == Words{"1: end 125"});
  for (const MemberId id : {2, 3}) job.over(id, false);
  CHECK(job.said == Words{"2: open 0/2", "3: open 1/2"});
  job.hear(2, msg::Leaving{0, true});
  for (const MemberId id : {2, 3}) job.over(id, false);
  job.join(4);
  CHECK(job.core.phase() == RoundPhase::running);
}

TEST_CASE("the engine's end at the host of a job ends it as the user does") {
  Job job(settings(1, 2));
  for (const MemberId id : {1, 2}) job.join(id);
  job.hear(1, msg::Leaving{0, true});
  for (const MemberId id : {1, 2}) job.over(id, false);
  CHECK(job.core.ended_because().find("was stopped by SIGTERM") != std::string::npos);
}

TEST_CASE("at a server no node's loss ends the job, and the workers' address is that of node 0") {
  Job job(standing(2, 3));
  for (const MemberId id : {1, 2, 3}) {
    NodeInfo info = job.info(id);
    info.seen_at = "10.0.0." + std::to_string(id);
    const auto actions = job.core.step(round_event::Said{id, msg::Join{info}}, job.now);
    job.take(actions);
    if (id < 3) continue;
    const auto& open = std::get<msg::Open>(std::get<round_action::Send>(actions.back()).message);
    CHECK(open.place.master_addr == "10.0.0.1");
  }
  job.gone(1);
  CHECK(job.said == Words{"2: stop", "3: stop"});
  job.over(2, false);
  job.over(3, false);
  CHECK(job.said == Words{"2: open 0/2", "3: open 1/2"});
  job.over(2, true);
  job.over(3, true);
  CHECK(job.said == Words{"2: end 0", "3: end 0"});
  CHECK(job.core.ended_because() == "all workers ended with exit code 0");
}

TEST_CASE("a server waits for nodes that are all gone as long as at the beginning") {
  Job job(standing(2, 2));
  job.join(1);
  job.join(2);
  job.gone(1);
  job.gone(2);
  CHECK(job.core.phase() == RoundPhase::gathering);
  SECTION("nobody comes back") {
    job.later(59s);
    CHECK(job.core.phase() == RoundPhase::gathering);
    job.later(1s);
    CHECK(job.core.phase() == RoundPhase::ended);
    CHECK(job.core.ended_because().find("0 of 2 nodes are left") != std::string::npos);
  }
  SECTION("they come back, leave, and come back") {
    job.later(30s);
    job.join(1);
    job.gone(1);
    job.later(10s);
    job.join(2);
    job.join(1);
    CHECK(job.core.round() == 1);
    CHECK(job.core.phase() == RoundPhase::running);
  }
  SECTION("the last one is stopped by its user") {
    job.join(1);
    job.hear(1, msg::Leaving{15, false});
    CHECK(job.said == Words{"1: end 143"});
    CHECK(job.core.phase() == RoundPhase::ended);
  }
}

TEST_CASE("a server that was started again goes on after the last round, when nobody can have workers of it") {
  RoundSettings s = standing(2, 2);
  s.unknown_not_before = MonoTime{} + 5s;
  Job job(s);
  for (const MemberId id : {1, 2}) {
    NodeInfo info = job.info(id);
    info.last = {0, 7, int(2 - id), 2, 0};
    job.hear(id, msg::Join{info});
  }
  CHECK(job.core.phase() == RoundPhase::gathering);
  job.later(5s);
  CHECK(job.said == Words{"2: open 0/2", "1: open 1/2"});
  CHECK(job.core.round() == 8);
  Job fresh(s);
  fresh.join(1);
  fresh.join(2);
  CHECK(fresh.core.phase() == RoundPhase::running);
}

TEST_CASE("nodes with another pulse are refused") {
  Job job(settings(2, 2));
  NodeInfo info = job.info(1);
  info.times.pulse_ms = 2500;
  job.hear(1, msg::Join{info});
  REQUIRE(job.said.size() == 1);
  CHECK(job.said[0].find("refused: --rdzv-conf keep_alive_interval and keep_alive_max_attempt 2.5 s and 3 here, "
                         "but 1 s and 3 at the node that hosts the job") != std::string::npos);
}

TEST_CASE("no node sees a round's number twice, though it was in later rounds of a host that is lost") {
  RoundSettings chosen = settings(1, 3);
  chosen.term = 1;
  Job job(chosen);
  job.join(1);
  job.later(30s);
  REQUIRE(job.core.round() == 0);
  NodeInfo back = job.info(2);
  back.last = {0, 4, 0, 1, 0};
  job.hear(2, msg::Join{back});
  CHECK(job.said == Words{"1: stop", "2: waits 1"});
  job.over(1, false);
  CHECK(job.said == Words{"1: open 0/2", "2: open 1/2"});
  CHECK(job.core.round() == 5);
}
