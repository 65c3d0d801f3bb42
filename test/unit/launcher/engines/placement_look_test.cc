// Agents that are only asked whether their hosts see a folder.
#include "test/unit/launcher/engines/placed_job.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

Job look(int hosts) {
  std::vector<PlacedHost> named;
  for (int i = 0; i < hosts; ++i) named.push_back({"h" + std::to_string(i)});
  auto asked = request(std::move(named));
  asked.only_looks = true;
  asked.task.looks_for = "/cache/key.tmp.job";
  Job job(std::move(asked));
  for (int i = 0; i < hosts; ++i) job.shows_card(i);
  return job;
}

void refuses(Job& job, int host, ErrorKind kind = ErrorKind::usage) {
  job.placement.said(host, verdict_line(Error{kind, "/cache is not there"}), kStart);
}

}  // namespace

TEST_CASE("a look ends well once all agents see the folder, and nothing runs") {
  Job job = look(2);
  for (const auto& order : job.placement.take_orders()) {
    const auto task = parse_agent_task(order.line);
    REQUIRE(task.ok());
    CHECK(task->looks_for == "/cache/key.tmp.job");
  }
  job.is_ready(0);
  CHECK_FALSE(job.placement.end());
  job.is_ready(1);
  CHECK(job.code() == 0);
  CHECK(job.dropped() == 2);
  CHECK_FALSE(job.placement.has_begun());
}

TEST_CASE("a look names each host that does not see the folder") {
  Job job = look(3);
  job.placement.take_orders();
  refuses(job, 2);
  CHECK_FALSE(job.placement.end());
  refuses(job, 0, ErrorKind::system);
  job.is_ready(1);
  CHECK(job.failure() == "h2: /cache is not there");
  CHECK(job.placement.end()->error().kind == ErrorKind::usage);
  CHECK(job.placement.take_notes() == std::vector<std::string>{"h0: /cache is not there"});
  CHECK(job.dropped() == 3);
}

TEST_CASE("a look does not wait for ever") {
  Job job = look(2);
  job.placement.take_orders();
  job.is_ready(0);
  job.placement.look_at(kStart + Placement::kPatience);
  CHECK(job.failure() == "h1: no answer within 60 s");
  Job silent = look(3);
  silent.placement.take_orders();
  silent.is_ready(1);
  silent.placement.look_at(kStart + Placement::kPatience);
  CHECK(silent.failure() == "h0: no answer within 60 s");
  CHECK(silent.placement.take_notes() == std::vector<std::string>{"h2: no answer within 60 s"});
  CHECK(silent.dropped() == 3);
}

TEST_CASE("a look keeps each no when another agent dies") {
  Job job = look(3);
  job.placement.take_orders();
  refuses(job, 0);
  job.ends(0, 125);  // it has answered
  CHECK_FALSE(job.placement.end());
  job.ends(1, 9);
  CHECK_FALSE(job.placement.end());
  job.is_ready(2);
  CHECK(job.failure() == "h0: /cache is not there");
  CHECK(job.placement.take_notes() == std::vector<std::string>{"h1: its command ended with 9"});
  CHECK(job.dropped() == 1);
  Job yes = look(2);
  yes.placement.take_orders();
  yes.is_ready(0);
  yes.ends(0, 0);
  CHECK_FALSE(yes.placement.end());
  yes.is_ready(1);
  CHECK(yes.code() == 0);
}

TEST_CASE("a look needs no address where the nodes would meet") {
  auto asked = request({{"h0"}, {"h1"}});
  asked.only_looks = true;
  asked.task.looks_for = "/cache/key.tmp.job";
  const auto version = asked.version;
  Job job(std::move(asked));
  for (int i = 0; i < 2; ++i) job.placement.said(i, card_line(AgentCard{version, "h" + std::to_string(i), {}}), kStart);
  for (const auto& place : job.places(2)) CHECK(place.endpoint.empty());
  job.is_ready(0);
  job.is_ready(1);
  CHECK(job.code() == 0);
}
