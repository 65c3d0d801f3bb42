// Agents of hosts that are reached as a tree come together, and are lost together.
#include "test/unit/launcher/engines/placed_job.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;

namespace {

// h0 reaches h1 and h2, and h1 reaches h3 to h6.
PlacementRequest tree_of_seven() {
  auto asked = request({{"h0"}, {"h1"}, {"h2"}, {"h3"}, {"h4"}, {"h5"}, {"h6"}});
  asked.through = {-1, 0, 0, 1, 1, 1, 1};
  return asked;
}

Job running_tree() {
  Job job(tree_of_seven());
  for (int i = 0; i < 7; ++i) job.shows_card(i);
  for (int i = 0; i < 7; ++i) job.is_ready(i);
  job.placement.take_orders();
  REQUIRE(job.placement.has_begun());
  return job;
}

std::vector<std::string> lost(const std::string& host, const std::string& with) {
  return {host + ": ssh has ended with 255: is the connection lost?; lost with it, because it reaches them: " + with};
}

}  // namespace

TEST_CASE("hosts that are lost with the one that reaches them are told with it, once") {
  Job job = running_tree();
  job.ends(6, 0);
  job.ends(1, 255);
  for (const int host : {3, 4, 5}) job.ends(host, Placement::kLost);
  CHECK(job.placement.take_notes() == lost("h1", "h3, h4, h5"));
  job.ends(0, -9);
  CHECK(job.placement.take_notes() == lost("h0", "h2"));
  job.ends(2, Placement::kLost);
  CHECK(job.placement.take_notes().empty());
  CHECK(job.code() == 0);

  Job all = running_tree();
  all.ends(0, 255);
  CHECK_THAT(all.placement.take_notes().at(0), Contains("them: h1, h2, h3 and 3 more"));
}

TEST_CASE("an agent that is killed takes no others along") {
  Job job = running_tree();
  job.placement.complained(1, "the agent died of SIGKILL");
  job.ends(1, Placement::kDied);
  CHECK(job.placement.take_notes() == std::vector<std::string>{"h1: the agent died of SIGKILL"});
  job.ends(3, Placement::kLost);
  CHECK(job.placement.take_notes() == std::vector<std::string>{"h3: the agent is lost"});
  for (const int host : {0, 2, 4, 5, 6}) job.ends(host, 143);
  CHECK(job.code() == 125);
  // Its connection is none of the user's worries.
  Job early(tree_of_seven());
  early.placement.complained(3, "the agent died of SIGKILL");
  early.ends(3, Placement::kDied);
  CHECK(early.failure() == "h3: the agent died of SIGKILL");
}

TEST_CASE("a host whose agent has ended may still lose those that it reaches") {
  Job job = running_tree();
  job.ends(1, 0);
  job.ends(3, Placement::kLost);
  CHECK(job.placement.take_notes() == std::vector<std::string>{"h3: the agent is lost"});
}

TEST_CASE("a host that another one does not reach is told with that one") {
  Job job(tree_of_seven());
  job.placement.complained(3, "Host key verification failed.");
  job.ends(3, 255);
  CHECK(job.failure() ==
        "h3: Host key verification failed; h1 must reach it by ssh without a question; with --ssh-fanout 0 this host "
        "reaches all hosts itself");
  CHECK(job.dropped() == 6);
  Job straight(tree_of_seven());
  straight.ends(0, 255);
  CHECK(straight.failure() == "h0: its command ended with 255");
  Job slow(tree_of_seven());
  slow.placement.look_at(kStart + Placement::kPatience);
  CHECK(slow.failure() == "h0: no answer within 60 s");
  Job late(tree_of_seven());
  late.shows_card(0);
  late.placement.look_at(kStart + Placement::kPatience);
  CHECK_THAT(late.failure(), Contains("h1: no answer within 60 s; h0 must reach it"));
}

TEST_CASE("hosts of a tree are all awaited at once") {
  std::vector<PlacedHost> hosts;
  for (std::size_t i = 0; i < 3 * Placement::kAtOnce; ++i) hosts.push_back({"h" + std::to_string(i)});
  auto asked = request(hosts);
  asked.through.assign(hosts.size(), -1);
  Placement placement(asked, kStart);
  CHECK(placement.take_orders().size() == hosts.size());
}
