// The rules of the vote one by one; test/sim has them all together in bad networks.
#include "rendezvous/election/succession_core.h"

#include "rendezvous/rounds/round_core.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;
namespace act = succession_action;
namespace ev = succession_event;

namespace {

const MonoTime kBegin = MonoTime{} + 1h;
const PulseSettings kSettings;

template <class T>
const T* find(const std::vector<SuccessionAction>& actions) {
  for (const auto& action : actions)
    if (const T* found = std::get_if<T>(&action)) return found;
  return nullptr;
}

// Host 1 and nodes 2, 3, ...: all of them are voters, the first five candidates.
Electorate electorate(int nodes) {
  Electorate all;
  all.host = 1;
  for (int i = 1; i <= nodes; ++i) {
    all.voters.push_back(VoterId(i));
    if (i <= 5) all.candidates.push_back({VoterId(i), "10.0.0." + std::to_string(i), 29400});
  }
  return all;
}

// Node `self` of so many, in round 0 of term 0, which is settled; the last stamp came at kBegin, the link is gone.
SuccessionCore seeker(VoterId self, int nodes, bool settled = true) {
  SuccessionCore core({kSettings, self});
  core.step(ev::Following{{{"10.0.0.1"}, 29400, 0}}, kBegin);
  core.step(ev::Opened{0, 0, electorate(nodes)}, kBegin);
  if (settled) core.step(ev::Settled{0}, kBegin);
  core.step(ev::Lost{0, kBegin}, kBegin + 1s);
  REQUIRE(core.phase() == SuccessionCore::Phase::seeking);
  return core;
}

std::int64_t ticks(MonoTime time) { return time.time_since_epoch().count(); }

msg::Ballot ballot(std::uint64_t term, int last_round = 0) { return {term, ticks(kBegin), 0, last_round}; }

}  // namespace

TEST_CASE("succession: a node that came by an address that was typed chooses the next host too") {
  SuccessionCore core({kSettings, 2});
  core.step(ev::Following{{{"10.0.0.1"}, 29400, 0}}, kBegin);  // of which term that host is, only its round says
  core.step(ev::Opened{2, 5, electorate(3)}, kBegin);
  core.step(ev::Settled{5}, kBegin);
  core.step(ev::Lost{2, kBegin}, kBegin + 1s);
  const auto found = core.step(ev::Find{}, kBegin + 1s);
  const auto* there = find<act::There>(found);
  REQUIRE(there);
  CHECK(there->host.term == 2);
  CHECK(core.can_follow());
  CHECK(find<act::Propose>(core.step(ev::Seeker{{3, 2, 5, 0}, true}, kBegin + 4s)));
}

TEST_CASE("succession: whoever was chosen once starts anew when it seeks again") {
  SuccessionCore core = seeker(2, 3);
  core.step(ev::Seeker{{3, 0, 0, 0}}, kBegin + 1s);
  const auto proposed = core.step(ev::Tick{}, kBegin + 2s);
  const auto* ballot = find<act::Propose>(proposed);
  REQUIRE(ballot != nullptr);
  const auto chosen = core.step(ev::Voted{3, {ballot->ballot.term, ballot->ballot.stamp, true, 0, 0}}, kBegin + 2s);
  REQUIRE(find<act::Here>(chosen) != nullptr);
  // Its guard's time is that of its lease, the nodes' after that, and that to kill.
  CHECK(core.fenced_at() == kBegin + 2s + 4500ms);
  // Its voters' connections have ended since; it is alone.
  core.step(ev::Lost{core.term(), kBegin + 3s}, kBegin + 3s);
  CHECK_FALSE(core.fenced_at());
  REQUIRE(core.phase() == SuccessionCore::Phase::seeking);
  CHECK_FALSE(core.deadline());
  CHECK(core.missing() == "1 of 3 nodes of the last round are here, 2 must be to choose another host");
}

TEST_CASE("succession: a node finds candidates of a round that it has not heard of by their seeking it") {
  SuccessionCore core = seeker(2, 3);
  const msg::Seek own = core.seek();
  CHECK(own.address == "10.0.0.2");
  CHECK(own.port == 29400);
  const auto back = core.step(ev::Seeker{{9, 0, 1, 0, "10.0.0.9", 29401}}, kBegin + 1s);
  REQUIRE(find<act::Seek>(back) != nullptr);
  CHECK(find<act::Seek>(back)->candidates == std::vector<Candidate>{{9, "10.0.0.9", 29401}});
  SuccessionCore voter = seeker(2, 3);
  const auto answers = voter.step(ev::Asked{9, ballot(1, 1)}, kBegin + 5s);
  REQUIRE(find<act::Answer>(answers) != nullptr);
  CHECK(find<act::Answer>(answers)->vote.granted);
  CHECK_FALSE(find<act::Seek>(core.step(ev::Seeker{{9, 0, 1, 0, "10.0.0.9", 29401}, false}, kBegin + 1s)));
  CHECK_FALSE(find<act::Seek>(core.step(ev::Seeker{{8, 0, 1}}, kBegin + 1s)));
  CHECK_FALSE(find<act::Seek>(core.step(ev::Seeker{{7, 0, 0, 0, "10.0.0.7", 29401}}, kBegin + 1s)));
}

TEST_CASE("succession: a node that leaves does not vote") {
  SuccessionCore leaves({kSettings, 3});
  leaves.step(ev::Following{{{"10.0.0.1"}, 29400, 0}}, kBegin);
  leaves.step(ev::Opened{0, 0, electorate(3)}, kBegin);
  leaves.step(ev::Settled{0}, kBegin);
  SECTION("with its host") {
    leaves.step(ev::Leaves{}, kBegin + 1s);
    CHECK(leaves.step(ev::Lost{0, kBegin}, kBegin + 1s).empty());
  }
  SECTION("without") {
    leaves.step(ev::Lost{0, kBegin}, kBegin + 1s);
    CHECK(find<act::StopSeeking>(leaves.step(ev::Leaves{}, kBegin + 1s)) != nullptr);
  }
  CHECK(leaves.phase() == SuccessionCore::Phase::idle);
  const auto actions = leaves.step(ev::Asked{2, ballot(1)}, kBegin + 5s);
  const auto* answer = find<act::Answer>(actions);
  REQUIRE(answer != nullptr);
  CHECK_FALSE(answer->vote.granted);
  CHECK_FALSE(leaves.deadline());
}

TEST_CASE("succession: a vote, once in a term, when the host has been silent long enough") {
  auto core = seeker(3, 5);
  CHECK(core.step(ev::Asked{2, ballot(1)}, kBegin + 1s).empty());
  CHECK(core.deadline() == kBegin + 2s);
  const auto voted = core.step(ev::Tick{}, kBegin + 2s);
  REQUIRE(find<act::Answer>(voted));
  CHECK(find<act::Answer>(voted)->candidate == 2);
  CHECK(find<act::Answer>(voted)->vote.granted);
  CHECK(find<act::Answer>(voted)->vote.age == Duration(2s).count());
  CHECK(find<act::Withdraw>(voted));
  // It joins the old host no more.
  CHECK(find<act::Nobody>(core.step(ev::Find{}, kBegin + 2s)));
  CHECK_FALSE(find<act::Answer>(core.step(ev::Asked{4, ballot(1)}, kBegin + 4s))->vote.granted);
  const auto next = core.step(ev::Asked{4, ballot(2)}, kBegin + 4s);
  REQUIRE(find<act::Answer>(next));
  CHECK(find<act::Answer>(next)->vote.granted);
  CHECK(find<act::Answer>(next)->vote.age == Duration(2s).count());  // the stamp of the first candidate
}

TEST_CASE("succession: no vote for whoever knows less, and none by whoever has a host") {
  auto core = seeker(3, 5);
  const auto older = core.step(ev::Asked{2, ballot(1, -1)}, kBegin + 3s);
  REQUIRE(find<act::Answer>(older));
  CHECK_FALSE(find<act::Answer>(older)->vote.granted);
  core.step(ev::Following{{{"10.0.0.1"}, 29400, 0}}, kBegin + 3s);
  CHECK_FALSE(find<act::Answer>(core.step(ev::Asked{2, ballot(4)}, kBegin + 3s))->vote.granted);
}

TEST_CASE("succession: a majority makes a host, which waits until the last one's workers are dead") {
  auto core = seeker(2, 5);
  // Who would not vote for it does not count.
  core.step(ev::Seeker{{5, 0, 1}}, kBegin + 2s);
  core.step(ev::Seeker{{3, 0, 0}}, kBegin + 2s);
  CHECK(core.step(ev::Tick{}, kBegin + 2s).empty());
  const auto proposed = core.step(ev::Seeker{{4, 0, 0}}, kBegin + 2s);
  REQUIRE(find<act::Propose>(proposed));
  const msg::Ballot own = find<act::Propose>(proposed)->ballot;
  CHECK(own.term == 1);
  const auto vote = [&](VoterId from, Duration age, MonoTime at) {
    return core.step(ev::Voted{from, {own.term, own.stamp, true, age.count(), 1}}, at);
  };
  CHECK(vote(3, 2100ms, kBegin + 2100ms).empty());
  CHECK(vote(3, 2100ms, kBegin + 2100ms).empty());  // the same one
  const auto won = vote(4, 1500ms, kBegin + 2100ms);
  REQUIRE(find<act::Here>(won));
  CHECK(find<act::Here>(won)->term == 1);
  CHECK(find<act::Here>(won)->not_before == kBegin + 600ms + SuccessionSettings{kSettings}.fence());
  CHECK(core.sure(kBegin + 3900ms));
  CHECK_FALSE(core.sure(kBegin + 4s));
  CHECK(find<act::Doubt>(core.step(ev::Tick{}, kBegin + 4s)));
  CHECK(find<act::Sure>(core.step(ev::Echoed{3, kBegin + 3s, -1}, kBegin + 4s)) == nullptr);
  CHECK(find<act::Sure>(core.step(ev::Echoed{4, kBegin + 3s, -1}, kBegin + 4s)));
  CHECK(find<act::Deposed>(core.step(ev::Tick{}, kBegin + 7s)));
  CHECK(core.phase() == SuccessionCore::Phase::seeking);
}

TEST_CASE("succession: a round that is not settled needs a majority of the one before too") {
  SuccessionCore core({kSettings, 2});
  auto both = electorate(3);
  both.earlier = {{1, 2, 8, 9}};
  core.step(ev::Following{{{"10.0.0.1"}, 29400, 0}}, kBegin);
  core.step(ev::Opened{0, 1, both}, kBegin);
  core.step(ev::Lost{0, kBegin}, kBegin + 2s);
  core.step(ev::Seeker{{3, 0, 1}}, kBegin + 2s);
  core.step(ev::Seeker{{8, 0, 0}}, kBegin + 2s);
  CHECK_FALSE(find<act::Propose>(core.step(ev::Tick{}, kBegin + 2s)));
  CHECK(find<act::Propose>(core.step(ev::Seeker{{9, 0, 0}}, kBegin + 2s)));
}

TEST_CASE("succession: of two nodes none can follow, of a first round that is not settled neither") {
  auto two = seeker(2, 2);
  CHECK_FALSE(two.can_follow());
  CHECK(two.missing() == "of two nodes, one cannot know whether the other is gone or cut off");
  auto young = seeker(2, 3, false);
  young.step(ev::Seeker{{3, 0, 0}}, kBegin + 3s);
  CHECK_FALSE(find<act::Propose>(young.step(ev::Tick{}, kBegin + 3s)));
}

TEST_CASE("succession: another host is found") {
  auto core = seeker(3, 5);
  CHECK(find<act::There>(core.step(ev::Find{}, kBegin + 1s))->host.term == 0);
  core.step(ev::Asked{2, ballot(4)}, kBegin + 2s);
  const HostPlace old{{"10.0.0.5"}, 29400, 3};
  // A host of a lower term than its vote, unless that has settled more than the candidate knew.
  CHECK(core.step(ev::Found{old, -1}, kBegin + 2s).empty());
  CHECK(core.seek().promised == 4);
  const HostPlace chosen{{"10.0.0.2"}, 29400, 4};
  SECTION("the one it has voted for") {
    CHECK(find<act::There>(core.step(ev::Found{chosen, -1}, kBegin + 2s))->host == chosen);
    CHECK(core.step(ev::Found{old, 5}, kBegin + 2s).empty());
  }
  SECTION("one that cannot be overtaken by it any more") {
    core.step(ev::Found{old, 1}, kBegin + 2s);
    CHECK(find<act::There>(core.step(ev::Find{}, kBegin + 2s))->host == old);
  }
}

// ---- RoundCore's part -----------------------------------------------------------------------------------------------

namespace {

NodeInfo node(MemberId id, int attempt = 1) {
  NodeInfo info;
  info.agent_id = "a" + std::to_string(id);
  info.host = "h";
  info.max_nodes = 7;
  info.attempt = attempt;
  info.address = "10.0.0." + std::to_string(id);
  info.port = 29400;
  return info;
}

RoundCore host_of_six() {
  RoundSettings settings;
  settings.host_agent = "a1";
  settings.max_nodes = 7;
  settings.succession = true;
  RoundCore core(settings);
  for (MemberId id = 1; id <= 6; ++id) core.step(round_event::Said{id, msg::Join{node(id)}}, kBegin);
  core.step(round_event::Tick{}, kBegin + 30s);
  REQUIRE(core.phase() == RoundPhase::running);
  return core;
}

// What this Join is refused for; empty: it is not.
std::string refusal(RoundCore& core, MemberId id, const NodeInfo& info) {
  for (const auto& action : core.step(round_event::Said{id, msg::Join{info}}, kBegin + 31s))
    if (const auto* send = std::get_if<round_action::Send>(&action); send != nullptr && send->member == id)
      if (const auto* refused = std::get_if<msg::Refused>(&send->message)) return refused->reason;
  return "";
}

}  // namespace

TEST_CASE("a Join that was given up and comes late is not that of a node that has come back") {
  auto core = host_of_six();
  CHECK(refusal(core, 9, node(2, 0)) == "it has joined since");
  CHECK(core.phase() == RoundPhase::running);
  CHECK(refusal(core, 10, node(2, 2)).empty());
  CHECK(core.phase() == RoundPhase::stopping);
}

TEST_CASE("where nodes choose their host, they are told who does, and join no other of the same term") {
  auto core = host_of_six();
  const Electorate& who = core.electorate();
  CHECK(who.host == voter_id("a1"));
  CHECK(who.voters.size() == 6);
  CHECK(who.voters[5] == voter_id("a6"));
  REQUIRE(who.candidates.size() == kMostCandidates);
  CHECK(who.candidates[1] == Candidate{voter_id("a2"), "10.0.0.2", 29400});
  NodeInfo stranger = node(8);
  stranger.last = {0, 0, 1, 3, 0, voter_id("of another")};
  CHECK(refusal(core, 8, stranger) == "this is not the agent that hosted the job before");
}
