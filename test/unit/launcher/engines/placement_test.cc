// Agents of several hosts come together, or do not.
#include "test/unit/launcher/engines/placed_job.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;
using What = Placement::Order::What;

TEST_CASE("agents that have shown their cards get a place, and begin once all are ready") {
  Job job(request({{"a", 2}, {"b", 4, {0, 3}}}));
  job.placement.said(1, "Welcome", kStart);
  job.shows_card(1);
  CHECK(job.placement.take_orders().empty());
  job.shows_card(0);
  const auto places = job.places(2);
  const std::string port = places[0].endpoint.substr(places[0].endpoint.find(':'));
  CHECK(places[0] == AgentPlace{"ssh", "2", "0", "10.0.0.0" + port, "job-1", "2"});
  CHECK(places[1] == AgentPlace{"ssh", "2", "1", "10.0.0.0" + port, "job-1", "2"});
  job.is_ready(1);
  CHECK(job.placement.take_orders().empty());
  job.is_ready(0);
  CHECK(job.placement.take_orders() == std::vector<Placement::Order>{{What::send, 0, "go"}, {What::send, 1, "go"}});
  CHECK(job.placement.has_begun());
  CHECK_FALSE(job.placement.deadline());
}

TEST_CASE("a choice of slots is a choice of GPUs") {
  Job job(request({{"a", 4, {0, 3}}}));
  job.shows_card(0);
  const auto orders = job.placement.take_orders();
  REQUIRE(orders.size() == 1);
  const auto task = parse_agent_task(orders[0].line);
  CHECK(task->env.at("CUDA_VISIBLE_DEVICES") == "0,3");
  CHECK(task->place == AgentPlace{"ssh", "1", "", "", "job-1", "2"});
}

TEST_CASE("where the nodes meet may be the user's choice") {
  auto asked = request({{"a"}, {"b"}});
  asked.meets_elsewhere = true;
  asked.numbered = false;
  Job job(asked);
  job.shows_card(0);
  job.shows_card(1);
  for (const AgentPlace& place : job.places(2)) CHECK(place == AgentPlace{"ssh", "2", "", "", "job-1", ""});
}

TEST_CASE("a host that does not come ends a job that needs it") {
  Job job(request({{"a"}, {"b"}}));
  job.shows_card(0);
  job.placement.complained(1, "ssh: connect to host b port 22: No route to host\r");
  job.ends(1, 255);
  CHECK(job.failure() == "b: ssh: connect to host b port 22: No route to host");
  CHECK(job.dropped() == 1);
}

TEST_CASE("a job that can begin with fewer hosts does") {
  auto asked = request({{"a"}, {"b"}, {"c"}});
  asked.least = 2;
  asked.numbered = false;
  Job job(asked);
  job.ends(0, 255);
  job.shows_card(1);
  job.shows_card(2);
  const auto places = job.places(3);
  CHECK(places[0] == AgentPlace{});
  CHECK(places[1].nnodes == "2");
  CHECK_THAT(places[2].endpoint, Contains("10.0.0.1:"));
  CHECK_THAT(job.placement.take_notes().at(0), Contains("a: its command ended with 255; the job begins without it"));
  job.is_ready(1);
  job.is_ready(2);
  CHECK(job.placement.has_begun());
  job.ends(1, 0);
  job.ends(2, 0);
  CHECK(job.code() == 0);
}

TEST_CASE("hosts without dtrain, with another version and with another protocol are told") {
  Job missing(request({{"a"}}));
  missing.placement.complained(0, "sh: 1: exec: dtrain: not found");
  missing.ends(0, 127);
  CHECK_THAT(missing.failure(), Contains("a: sh: 1: exec: dtrain: not found: dtrain must be installed there"));
  Job other(request({{"a"}}));
  other.placement.said(0, card_line({"dtrain 0.9", "h", {}}), kStart);
  CHECK(other.failure() == "a has dtrain 0.9, and this is dtrain 1.0: install the same version on all hosts");
  Job strange(request({{"a"}}));
  strange.placement.said(0, "dtrain-agent {\"protocol\":7,\"version\":\"x\"}", kStart);
  CHECK_THAT(strange.failure(), Contains("a: x is there"));
}

TEST_CASE("an agent that cannot carry out its task ends the placement with its own error") {
  Job job(request({{"a"}, {"b"}}));
  job.shows_card(0);
  job.shows_card(1);
  job.placement.take_orders();
  job.is_ready(0);
  job.placement.said(1, verdict_line(Error{ErrorKind::not_found, "train.py: no such file"}), kStart);
  CHECK(job.failure() == "b: train.py: no such file");
  CHECK(job.placement.end()->error().kind == ErrorKind::not_found);
  CHECK(job.dropped() == 2);
}

TEST_CASE("hosts that do not answer are waited for as long as has been said") {
  Job job(request({{"a"}, {"b"}}));
  job.shows_card(0);
  REQUIRE(job.placement.deadline() == kStart + Placement::kPatience);
  job.placement.look_at(kStart + Placement::kPatience - std::chrono::nanoseconds(1));
  CHECK_FALSE(job.placement.end());
  job.placement.look_at(kStart + Placement::kPatience);
  CHECK(job.failure() == "b: no answer within 60 s");
  CHECK(job.dropped() >= 2);
  Job late(request({{"a"}}));
  late.shows_card(0);
  late.placement.look_at(kStart + Placement::kPatience);
  CHECK(late.failure() == "a: no answer within 60 s");
}

TEST_CASE("the exit code is that of the job, not that of a connection") {
  const auto code = [](int first, int second, bool elastic = false) {
    auto asked = request({{"h0"}, {"h1"}});
    asked.elastic = elastic;
    Job job(asked);
    for (int i = 0; i < 2; ++i) job.shows_card(i);
    for (int i = 0; i < 2; ++i) job.is_ready(i);
    job.ends(0, first);
    job.ends(1, second);
    return job.code();
  };
  CHECK(code(0, 0) == 0);
  CHECK(code(7, 7) == 7);
  CHECK(code(7, 255) == 7);
  CHECK(code(255, 255) == 255);
  // A node was lost, and the others were stopped by that.
  CHECK(code(255, 143) == 125);
  CHECK(code(-9, 143) == 125);
  CHECK(code(255, 0) == 0);
  CHECK(code(-9, 0, true) == 0);
  CHECK(code(125, 0, true) == 0);
  CHECK(code(125, 7, true) == 125);
}

TEST_CASE("an agent on this host has no connection that could be lost") {
  auto asked = request({{"localhost"}});
  asked.here = {"localhost"};
  Job job(asked);
  job.shows_card(0);
  job.is_ready(0);
  job.ends(0, -9);
  CHECK(job.code() == 137);
  CHECK(job.placement.take_notes().empty());
}

TEST_CASE("one host by two names is told") {
  Job job(request({{"a"}, {"b"}}));
  job.shows_card(0);
  job.placement.said(1, card(0), kStart);
  CHECK(job.failure() == "a and b are the same host: name it once, with more slots");
  Job alone(request({{"a"}, {"b"}}));
  alone.placement.said(0, card_line({kVersion, "x", {}}), kStart);
  alone.shows_card(1);
  CHECK_THAT(alone.failure(), Contains("a has no address that other hosts could reach"));
}

TEST_CASE("signals go to agents that run, and end a placement") {
  Job job = running(2);
  job.ends(0, 255);
  CHECK_THAT(job.placement.take_notes().at(0), Contains("h0: ssh has ended with 255: is the connection lost?"));
  job.placement.signal(15, true);
  job.placement.signal(10, false);
  CHECK(job.placement.take_orders() == std::vector<Placement::Order>{{What::send, 1, "15"}, {What::send, 1, "10"}});
  Job early(request({{"a"}, {"b"}}));
  early.shows_card(0);
  early.placement.signal(10, false);
  CHECK_FALSE(early.placement.end());
  early.placement.signal(2, true);
  CHECK(early.code() == 130);
  CHECK(early.dropped() == 2);
}

TEST_CASE("of many hosts some are started at a time") {
  std::vector<PlacedHost> hosts;
  for (int i = 0; i < 100; ++i) hosts.push_back({"h" + std::to_string(i)});
  Placement placement(request(hosts), kStart);
  const auto first = placement.take_orders();
  CHECK(first.size() == Placement::kAtOnce);
  CHECK(first[0] == Placement::Order{What::start, 0, ""});
  placement.said(3, card(3), kStart);
  CHECK(placement.take_orders() == std::vector<Placement::Order>{{What::start, 64, ""}});
  placement.ended(4, 255, kStart);
  CHECK(placement.take_orders().size() == Placement::kAtOnce);  // all that were started are dropped
}

TEST_CASE("what ssh and a login shell have said is told if no agent comes") {
  Job job(request({{"a"}}));
  job.placement.said(0, "Choose a project:", kStart);
  job.placement.complained(0, "  \r");
  job.placement.look_at(kStart + Placement::kPatience);
  CHECK(job.failure() == "a: no answer within 60 s; Choose a project:");
  Job fine(request({{"a"}}));
  fine.placement.complained(0, "Warning: Permanently added 'a'");
  fine.shows_card(0);
  fine.is_ready(0);
  CHECK(fine.placement.take_notes().empty());
}

namespace {

PlacementRequest of_engine(std::vector<PlacedHost> hosts) {
  PlacementRequest asked = request(std::move(hosts));
  asked.task.place.engine = "ray";
  asked.shares_hosts = true;
  return asked;
}

Job engine_runs(int agents) {
  Job job(of_engine(std::vector<PlacedHost>(static_cast<std::size_t>(agents), PlacedHost{"10.0.0.1", 2})));
  for (int i = 0; i < agents; ++i) job.placement.said(i, card(1), kStart);
  for (int i = 0; i < agents; ++i) job.is_ready(i);
  return job;
}

}  // namespace

TEST_CASE("agents of an engine may be on one host") {
  Job job(of_engine({{"10.0.0.1", 2}, {"10.0.0.1", 3}}));
  job.placement.said(0, card(1), kStart);
  job.placement.said(1, card(1), kStart);
  const auto places = job.places(2);
  CHECK(places[0].endpoint == places[1].endpoint);
  CHECK_THAT(places[1].endpoint, Contains("10.0.0.1:"));
  CHECK(places[1].nproc == "3");

  Job alone(of_engine({{"laptop"}, {"laptop"}}));
  for (const int host : {0, 1}) alone.placement.said(host, card_line({kVersion, "h", {}}), kStart);
  CHECK_THAT(alone.places(2)[1].endpoint, Contains("127.0.0.1:"));
}

TEST_CASE("an agent that its engine has lost fails the job") {
  for (const int other : {143, 0}) {
    Job job = engine_runs(2);
    job.ends(1, Placement::kLost);
    CHECK(job.placement.take_notes() == std::vector<std::string>{"10.0.0.1: the agent is lost"});
    job.ends(0, other);
    CHECK(job.code() == (other == 0 ? 0 : 125));
  }
}

TEST_CASE("a job all of whose agents are lost has no code of its own") {
  Job job = engine_runs(2);
  job.placement.complained(1, "Ray has lost it");
  job.ends(0, Placement::kLost);
  job.ends(1, Placement::kLost);
  CHECK(job.code() == 125);
  CHECK(job.placement.take_notes() ==
        std::vector<std::string>{"10.0.0.1: the agent is lost", "10.0.0.1: the agent is lost: Ray has lost it"});
}

TEST_CASE("255 of an engine's agent is the job's code") {
  Job job = engine_runs(2);
  job.ends(0, 255);
  job.ends(1, 255);
  CHECK(job.code() == 255);
  CHECK(job.placement.take_notes().empty());
}

TEST_CASE("an agent that an engine cannot start is named, with the reason") {
  Job job(of_engine({{"10.0.0.1"}, {"10.0.0.2"}}));
  job.placement.complained(1, "dtrain must be installed there, in PATH or where it is here");
  job.ends(1, Placement::kLost);
  CHECK(job.failure() == "10.0.0.2: dtrain must be installed there, in PATH or where it is here");
}

TEST_CASE("hosts that an engine does not know are named by their agents") {
  PlacementRequest asked = request({{"task 0"}, {"task 1"}});
  asked.named_by_cards = true;
  Job job(std::move(asked));
  job.shows_card(0);
  job.ends(0, Placement::kLost);
  CHECK_THAT(job.failure(), Contains("h (task 0): its agent is lost"));
  asked = request({{"task 0"}, {"task 1"}});
  asked.named_by_cards = true;
  Job other(std::move(asked));
  other.shows_card(0);
  other.ends(1, Placement::kLost);
  CHECK_THAT(other.failure(), Contains("task 1: its agent is lost"));
}

TEST_CASE("an engine that does not start its agents has no room for them") {
  PlacementRequest asked = request({{"task 0"}, {"task 1"}});
  asked.named_by_cards = true;
  Job job(std::move(asked));
  job.shows_card(0);
  job.placement.look_at(kStart + Placement::kPatience);
  CHECK_THAT(job.failure(), Contains("task 1: the engine has not started it within 60 s"));
  CHECK(job.placement.end()->error().kind == ErrorKind::unavailable);
}

TEST_CASE("an agent that lacks files gets the pieces that it asks for, each once") {
  auto asked = request({{"a"}, {"b"}});
  asked.task.ship = {{"train", 100000, std::string(64, 'a'), true}};
  Job job(std::move(asked));
  job.shows_card(0);
  job.shows_card(1);
  for (const auto& order : job.placement.take_orders())
    CHECK(parse_agent_task(order.line)->ship == std::vector<ShipFile>{{"train", 100000, std::string(64, 'a'), true}});
  job.is_ready(0);
  const auto later = kStart + Placement::kPatience - std::chrono::seconds(1);
  job.placement.said(1, ship_ask_line({0, 0, 0}), later);
  const auto orders = job.placement.take_orders();
  REQUIRE(orders.size() == 1);
  CHECK(orders[0] == Placement::Order{What::serve, 1, {}, {0, 0, kShipPieceBytes}});
  CHECK(*job.placement.deadline() == later + Placement::kPatience);
  job.is_ready(1);
  CHECK(job.placement.has_begun());
  const auto notes = job.placement.take_notes();
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("b got files of the job"));
}

TEST_CASE("an agent that asks for the same piece again, or for others, ends the placement") {
  for (const ShipPiece again : {ShipPiece{0, 0, 0}, ShipPiece{1, 0, 0}, ShipPiece{0, 100000, 0}}) {
    auto asked = request({{"a"}});
    asked.task.ship = {{"train", 100000, std::string(64, 'a'), true}};
    Job job(std::move(asked));
    job.shows_card(0);
    job.placement.said(0, ship_ask_line({0, 0, 0}), kStart);
    job.placement.said(0, ship_ask_line(again), kStart);
    CHECK_THAT(job.failure(), Contains("a: it asks for"));
  }
}

TEST_CASE("a file that cannot be read any more ends the placement, and names the host that waits for it") {
  auto asked = request({{"a"}});
  asked.task.ship = {{"train", 100000, std::string(64, 'a'), true}};
  Job job(std::move(asked));
  job.shows_card(0);
  job.placement.said(0, ship_ask_line({0, 0, 0}), kStart);
  job.placement.take_orders();
  job.placement.cannot_serve(0, {ErrorKind::system, "train has changed"});
  CHECK(job.failure() == "for a: train has changed");
  CHECK(job.dropped() == 1);
}

TEST_CASE("an engine may have other work before it starts agents, and the patience begins after that") {
  PlacementRequest asked = request({{"task 0"}, {"task 1"}});
  asked.named_by_cards = asked.begins_late = true;
  Job job(std::move(asked));
  const MonoTime later = kStart + 100 * Placement::kPatience;
  CHECK_FALSE(job.placement.deadline());
  job.placement.look_at(later);
  CHECK_FALSE(job.placement.end());
  job.shows_card(0, later);
  CHECK(job.placement.deadline() == later + Placement::kPatience);
  job.placement.look_at(later + Placement::kPatience);
  CHECK_THAT(job.failure(), Contains("task 1: the engine has not started it within 60 s"));
}

// ---- a job that goes on without nodes, and takes others -------------------------------------------------------------

namespace {

using Orders = std::vector<Placement::Order>;

Job grows(int agents, int least = 1) {
  auto asked = of_engine({});
  for (int i = 0; i < agents; ++i) asked.hosts.push_back({"n" + std::to_string(i), 2});
  asked.least = least;
  asked.elastic = asked.grows = true;
  asked.numbered = false;
  asked.rounds_at = AgentCard{kVersion, "front", {"10.0.0.9"}};
  asked.port = "4000";
  Job job(std::move(asked));
  for (int i = 0; i < agents; ++i) job.shows_card(i);
  for (const AgentPlace& place : job.places(static_cast<std::size_t>(agents))) {
    CHECK(place.endpoint == "10.0.0.9:4000");
    CHECK(place.node_rank.empty());
  }
  for (int i = 0; i < agents; ++i) job.is_ready(i);
  job.placement.take_orders();
  return job;
}

}  // namespace

TEST_CASE("in place of an agent that is lost the engine may start another, which begins by itself") {
  Job job = grows(2);
  job.ends(0, Placement::kLost);
  CHECK(job.placement.take_orders() == Orders{{What::vacate, 0}});
  job.placement.joined({"n2", 3}, kStart);
  CHECK(job.placement.take_orders() == Orders{{What::start, 2}});
  CHECK_FALSE(job.placement.has_begun(2));
  job.shows_card(2);
  const auto place = job.places(3)[2];
  CHECK(place.endpoint == "10.0.0.9:4000");
  CHECK(place.nproc == "3");
  job.is_ready(2);
  CHECK(job.placement.take_orders() == Orders{{What::send, 2, "go"}});
  CHECK(job.placement.has_begun(2));
  CHECK_FALSE(job.placement.deadline());
  job.ends(1, 7);
  CHECK(job.placement.take_orders().empty());  // of itself: the job comes to its end
  job.ends(2, 7);
  CHECK(job.code() == 7);
}

TEST_CASE("an agent on the host of the rounds finds them at all addresses of that host") {
  Job job = grows(1);
  job.placement.joined({"front", 1}, kStart);
  job.placement.take_orders();
  job.placement.said(1, card_line({kVersion, "front", {"10.0.0.9"}}), kStart);
  CHECK(job.places(2)[1].endpoint == "10.0.0.9:4000");
  job.placement.joined({"other", 1}, kStart);
  job.placement.take_orders();
  job.placement.said(2, card_line({kVersion, "other", {"10.0.0.9"}}), kStart);
  CHECK(job.placement.take_orders() == Orders{{What::drop, 2}, {What::vacate, 2}});
  CHECK_THAT(job.placement.take_notes().at(0), Contains("other cannot reach the host of this command"));
}

TEST_CASE("a late agent that does not fit or does not come is no end of the job") {
  Job job = grows(1);
  const Orders away{{What::drop, 1}, {What::vacate, 1}};
  job.placement.joined({"n1", 1}, kStart);
  job.placement.take_orders();
  SECTION("another version") { job.placement.said(1, card_line({"dtrain 9", "h", {"10.0.0.1"}}), kStart); }
  SECTION("it ends") { job.ends(1, 127); }
  SECTION("its task cannot be carried out") {
    job.shows_card(1);
    job.placement.take_orders();
    job.placement.said(1, verdict_line(Error{ErrorKind::usage, "no such program"}), kStart);
  }
  SECTION("it says nothing") {
    CHECK(job.placement.deadline() == kStart + Placement::kPatience);
    job.placement.look_at(kStart + Placement::kPatience);
    CHECK(job.placement.take_orders() == Orders{{What::drop, 1}, {What::drop, 1}, {What::vacate, 1}});
    CHECK_THAT(job.placement.take_notes().at(0), Contains("n1: no answer within 60 s; the job goes on without it"));
    job.ends(0, 0);
    CHECK(job.code() == 0);
    return;
  }
  CHECK(job.placement.take_orders() == away);
  CHECK_THAT(job.placement.take_notes().at(0), Contains("; the job goes on without it"));
  CHECK_FALSE(job.placement.end());
  job.ends(0, 0);
  CHECK(job.code() == 0);
}

TEST_CASE("who is late for the end of a job is dropped") {
  Job job = grows(1);
  job.placement.joined({"n1", 1}, kStart);
  job.placement.take_orders();
  SECTION("the user ends it") {
    job.placement.signal(2, true);
    CHECK(job.placement.take_orders() == Orders{{What::send, 0, "2"}, {What::drop, 1}});
    job.placement.joined({"n2", 1}, kStart);
    CHECK(job.placement.take_orders().empty());
    job.ends(0, 130);
    CHECK(job.code() == 130);
  }
  SECTION("it ends by itself") {
    job.ends(0, 0);
    CHECK(job.placement.take_orders() == Orders{{What::drop, 1}});
    CHECK(job.code() == 0);
  }
}

TEST_CASE("without enough nodes a job that grows ends with what its agents say, and with 125 if all are lost") {
  Job job = grows(3, 2);
  job.ends(0, Placement::kLost);
  job.ends(1, 125);
  job.ends(2, 125);
  CHECK(job.code() == 125);
  CHECK(job.placement.take_notes() == std::vector<std::string>{"n0: the agent is lost"});
  Job failed = grows(2);
  failed.ends(0, Placement::kLost);
  failed.ends(1, 3);
  CHECK(failed.code() == 3);
  Job lost = grows(1);
  lost.ends(0, Placement::kLost);
  CHECK(lost.placement.take_orders().empty());
  CHECK(lost.code() == 125);
}
