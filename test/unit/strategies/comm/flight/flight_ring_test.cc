// The flight recorder's ring, settings and file. The file of the last test is also read by test/unit/cli.
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "strategies/comm/flight/flight_clock.h"
#include "strategies/comm/flight/flight_file.h"
#include "test/support/catch.h"
#include "test/support/golden.h"
#include "test/unit/strategies/variables.h"

using namespace dtrain;
using dtrain::test::lookup_in;

namespace {

FlightCall all_reduce(std::int64_t elements) {
  FlightCall call;
  call.op = "all_reduce";
  call.type = "float32";
  call.reduction = "sum";
  call.add(std::array{elements});
  return call;
}

FlightCall recv_from(int peer) {
  FlightCall call;
  call.op = "recv";
  call.type = "float64";
  call.message = true;
  call.peer = peer;
  call.tag = 7;
  call.add(std::array<std::int64_t, 2>{3, 4});
  return call;
}

}  // namespace

TEST_CASE("the recorder's ticks are nanoseconds of the system's clock afterwards") {
  const auto system_ns = [] {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  // Other work may come between the two halves of a reading: one that took longer than a millisecond is made anew.
  const auto undisturbed = [&](const auto& read) {
    for (int tries = 1;; ++tries) {
      const auto before = system_ns();
      const auto value = read();
      if (system_ns() - before < 1'000'000 || tries == 1000) return value;
    }
  };
  const FlightClock clock;
  const auto apart = [&] { return undisturbed([&] { return std::pair(system_ns(), clock.ticks()); }); };
  const auto first = apart();
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds{20};
  while (std::chrono::steady_clock::now() < later) continue;
  const auto second = apart();
  const ClockPoint now = undisturbed([&] { return clock.now(); });
  for (const auto& [ns, ticks] : {first, second}) CHECK(std::abs(clock.to_ns(ticks, now) - ns) < 10'000'000);
  CHECK(clock.to_ns(second.second, now) - clock.to_ns(first.second, now) > 15'000'000);
  CHECK(clock.to_ns(now.ticks, now) == now.ns);
}

TEST_CASE("a moment between two others") {
  const ClockPoint first{1000, 50}, second{3000, 1050};
  CHECK(ns_between(first, second, 1000) == 50);
  CHECK(ns_between(first, second, 2000) == 550);
  CHECK(ns_between(first, second, 2998) == 1049);
  CHECK(ns_between(first, second, 3002) == 1051);
  CHECK(ns_between(first, first, 1000) == 50);
  const std::int64_t year = 31'536'000'000'000'000;
  CHECK(ns_between({0, 0}, {year * 3, year}, year * 3 - 3) == year - 1);
}

TEST_CASE("collectives are numbered in their group, and messages apart from them") {
  FlightRing ring(8);
  FlightGroup& a = ring.add_group("a", 0, 2);
  FlightGroup& b = ring.add_group("b", 1, 2);
  const auto first = ring.queued(a, all_reduce(1), false, 10);
  const auto other = ring.queued(b, all_reduce(2), true, 11);
  const auto message = ring.queued(a, recv_from(1), true, 12);
  const auto second = ring.queued(a, all_reduce(3), false, 13);
  ring.started(first, 20);
  ring.ended(a, first, true, 30);
  ring.ended(a, message, false, 31);
  const auto all = ring.snapshot();
  REQUIRE(all.records.size() == 4);
  CHECK(all.records[0].number == 1);
  CHECK(all.records[1].number == 1);
  CHECK(all.records[2].number == 1);
  CHECK(all.records[3].number == 2);
  CHECK(all.records[0].state == FlightState::done);
  CHECK(all.records[0].started_at == 20);
  CHECK(all.records[0].ended_at == 30);
  CHECK(all.records[1].state == FlightState::running);
  CHECK(all.records[1].started_at == 11);
  CHECK(all.records[2].state == FlightState::failed);
  CHECK(all.records[3].state == FlightState::queued);
  CHECK(all.groups[0].queued == 2);
  CHECK(all.groups[0].finished == 1);
  CHECK(all.groups[0].messages == 1);
  CHECK(all.groups[0].messages_finished == 0);
  CHECK(second.serial == 4);
  CHECK(other.serial == 2);
}

TEST_CASE("the oldest records are given up, but not those of what is under way") {
  FlightRing ring(4);
  FlightGroup& group = ring.add_group("a", 0, 2);
  const auto stuck = ring.queued(group, all_reduce(1), true, 1);
  for (int i = 0; i < 100; ++i) {
    const auto ticket = ring.queued(group, recv_from(1), true, 2 + i);
    ring.ended(group, ticket, true, 2 + i);
  }
  const auto all = ring.snapshot();
  REQUIRE(all.records.size() == 4);
  CHECK(all.records[0].serial == stuck.serial);
  CHECK(all.records[3].serial == 101);
  CHECK(all.called == 101);
  ring.ended(group, stuck, true, 200);
  CHECK(ring.snapshot().groups[0].finished == 1);
}

TEST_CASE("what is under way is given up where there is nothing else, and still counted") {
  FlightRing ring(2);
  FlightGroup& group = ring.add_group("a", 0, 2);
  std::vector<FlightRing::Ticket> tickets;
  for (int i = 0; i < 5; ++i) tickets.push_back(ring.queued(group, all_reduce(i), false, i));
  for (const auto& ticket : tickets) ring.ended(group, ticket, true, 10);
  const auto all = ring.snapshot();
  REQUIRE(all.records.size() == 2);
  CHECK(all.records[1].number == 5);
  CHECK(all.groups[0].queued == 5);
  CHECK(all.groups[0].finished == 5);
}

TEST_CASE("a group that is gone takes its records along") {
  FlightRing ring(8);
  FlightGroup& a = ring.add_group("a", 0, 2);
  FlightGroup& b = ring.add_group("b", 0, 2);
  ring.queued(a, all_reduce(1), true, 1);
  ring.queued(b, all_reduce(1), true, 2);
  ring.remove_group(a);
  const auto all = ring.snapshot();
  REQUIRE(all.records.size() == 1);
  CHECK(all.records[0].group == b.id);
  CHECK(all.groups.size() == 1);
}

TEST_CASE("shapes are kept as far as there is room, and all elements counted") {
  FlightCall call;
  call.add(std::array<std::int64_t, 3>{2, 3, 4});
  call.add(std::array<std::int64_t, 6>{1, 1, 1, 1, 1, 5});  // does not fit behind the first
  call.add(std::array<std::int64_t, 1>{7});                 // would, but its place is not the second
  call.add(std::span<const std::int64_t>());
  CHECK(call.shapes == 1);
  CHECK(call.tensors == 4);
  CHECK(call.elements == 24 + 5 + 7 + 1);
}

TEST_CASE("the environment says where files go, and what asks for them") {
  const auto bare = read_flight_settings(lookup_in({}));
  CHECK(bare.folder.empty());
  CHECK(bare.records == 1024);
  CHECK(bare.signal == SIGUSR2);
  CHECK(bare.rank == -1);
  const auto launched = read_flight_settings(lookup_in({{"DTRAIN_ROUND_DIR", "/logs/attempt_0"},
                                                        {"RANK", "3"},
                                                        {"WORLD_SIZE", "4"},
                                                        {"DTRAIN_ROUND", "2"},
                                                        {"TORCHELASTIC_RUN_ID", "job"}}));
  CHECK(launched.folder == "/logs/attempt_0");
  CHECK_FALSE(launched.make_folder);
  CHECK(launched.rank == 3);
  CHECK(launched.round == 2);
  CHECK(launched.job == "job");
  const auto own = read_flight_settings(lookup_in({{"DTRAIN_ROUND_DIR", "/logs/attempt_0"},
                                                   {"DTRAIN_FLIGHT_DIR", "/mine"},
                                                   {"DTRAIN_FLIGHT_SIGNAL", "SIGUSR1"},
                                                   {"DTRAIN_FLIGHT_RECORDS", "0"}}));
  CHECK(own.folder == "/mine");
  CHECK(own.make_folder);
  CHECK(own.signal == SIGUSR1);
  CHECK(own.records == 0);
  CHECK(read_flight_settings(lookup_in({{"DTRAIN_FLIGHT_SIGNAL", "none"}})).signal == 0);
  CHECK_THROWS_WITH(read_flight_settings(lookup_in({{"DTRAIN_FLIGHT_SIGNAL", "KILL"}})),
                    "dtrain: DTRAIN_FLIGHT_SIGNAL='KILL' is not USR1, USR2 or none");
  for (const char* wrong : {"-1", "1k", "2000000000", " 5"})
    CHECK_THROWS_WITH(read_flight_settings(lookup_in({{"DTRAIN_FLIGHT_RECORDS", wrong}})),
                      Catch::StartsWith("dtrain: DTRAIN_FLIGHT_RECORDS=") &&
                          Catch::Contains("is not a whole number from 0 to 1048576"));
}

TEST_CASE("the file that dtrain flight reads") {
  FlightRing ring(16);
  FlightGroup& world = ring.add_group("00c0ffee00c0ffee", 1, 3);
  world.name = "dtrain_world";
  FlightGroup& pair = ring.add_group("beefbeefbeefbeef", 0, 2);
  pair.name = "pipe \xff \"1\"";
  const auto first = ring.queued(world, all_reduce(1024), true, 1'000'000'000);
  ring.ended(world, first, true, 1'500'000'000);
  FlightCall root = all_reduce(6);
  root.op = "reduce";
  root.root = 2;
  root.origin = {CallOrigin::Kind::ddp_backward, 2, 3};
  const auto failed = ring.queued(world, root, false, 2'000'000'000);
  ring.started(failed, 2'000'000'001);
  ring.ended(world, failed, false, 7'000'000'001);
  ring.queued(world, FlightCall{.op = "barrier"}, false, 2'500'000'000);
  ring.queued(pair, recv_from(1), true, 3'000'000'000);
  FlightSettings settings;
  settings.rank = 1;
  settings.world_size = 3;
  settings.round = 2;
  settings.restarts = 1;
  settings.job = "job-1";
  CHECK(flight_file_name(1) == "flight_rank1.json");
  test::check_golden("flight/flight_rank1.json", flight_file(ring.snapshot(), settings, {"node0", 4711},
                                                             {"timed_out", world.id, 2}, 8'000'000'000));
}
