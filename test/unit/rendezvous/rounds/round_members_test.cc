#include "rendezvous/rounds/round_members.h"

#include "test/support/catch.h"

using namespace dtrain;

namespace {

NodeInfo node(const std::string& agent, int workers = 2, int wanted_rank = -1) {
  NodeInfo info;
  info.agent_id = agent;
  info.workers = workers;
  info.wanted_rank = wanted_rank;
  return info;
}

// Three members, of which the first two are in round 0.
RoundMembers in_round() {
  RoundMembers members;
  members.add(7, node("a"));
  members.add(5, node("b"));
  members.add(9, node("c"));
  members.place(7, 0, 0);
  members.place(5, 1, 2);
  return members;
}

}  // namespace

TEST_CASE("a member is found by its connection, its agent and its wanted rank, until it is removed") {
  RoundMembers members;
  members.add(1, node("a", 2, 3));
  members.add(2, node("b"));
  REQUIRE(members.find(1) != nullptr);
  CHECK(members.of_agent("a") == members.find(1));
  CHECK(members.with_wanted_rank(3) == members.find(1));
  CHECK(members.with_wanted_rank(-1) == nullptr);
  CHECK(members.wanted_ranks() == 1);
  CHECK(members.of_agent("b")->id == 2);
  members.remove(1);
  CHECK(members.find(1) == nullptr);
  CHECK(members.of_agent("a") == nullptr);
  CHECK(members.with_wanted_rank(3) == nullptr);
  CHECK(members.wanted_ranks() == 0);
  CHECK(members.size() == 1);
}

TEST_CASE("a member in the round has the ranks of its workers, one that waits has none") {
  const RoundMembers members = in_round();
  CHECK(members.at(5).has_rank(2));
  CHECK(members.at(5).has_rank(3));
  CHECK_FALSE(members.at(5).has_rank(1));
  CHECK_FALSE(members.at(5).has_rank(4));
  CHECK_FALSE(members.at(9).has_rank(0));
}

TEST_CASE("members are counted as they change, and no longer when they are removed") {
  RoundMembers members = in_round();
  CHECK(members.placed() == 2);
  CHECK_FALSE(members.all_over());
  members.set_over(7, true);
  CHECK(members.over() == 1);
  CHECK_FALSE(members.all_ok());
  SECTION("both end well") {
    members.set_over(5, true);
    CHECK(members.all_over());
    CHECK(members.all_ok());
  }
  SECTION("one fails") {
    members.set_over(5, false);
    CHECK(members.all_over());
    CHECK_FALSE(members.all_ok());
  }
  SECTION("one goes") {
    members.remove(5);
    CHECK(members.placed() == 1);
    CHECK(members.all_over());
    CHECK(members.all_ok());
    members.remove(7);
    CHECK(members.placed() == 0);
    CHECK(members.over() == 0);
  }
}

TEST_CASE("a member that leaves does not stay, whether it is in the round or not") {
  RoundMembers members = in_round();
  members.set_leaving(7);
  members.set_leaving(9);
  CHECK(members.staying() == 1);
  CHECK(members.placed() == 2);
  members.remove(7);
  CHECK(members.staying() == 1);
  members.clear_places();
  CHECK(members.staying() == 1);
  members.remove(9);
  CHECK(members.staying() == 1);
}

TEST_CASE("the end of a round is the last place of those who were in it") {
  RoundMembers members = in_round();
  members.set_over(7, true);
  members.end_round({4, 6, -1, 2, 1});
  CHECK(members.at(5).info.last == LastPlace{4, 6, 1, 2, 1});
  CHECK(members.at(9).info.last == LastPlace{});
  CHECK_FALSE(members.at(7).in_round());
  CHECK_FALSE(members.at(7).over);
  CHECK(members.placed() == 0);
  CHECK(members.over() == 0);
}
