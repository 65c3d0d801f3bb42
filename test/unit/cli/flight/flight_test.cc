// `dtrain flight`: files taken apart, and planted stories of several ranks.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/flight/flight_reading.h"
#include "cli/flight/flight_story.h"
#include "cli/flight/flight_text.h"
#include "test/support/catch.h"
#include "test/support/golden.h"

namespace dtrain::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 100 * kSecond;

FlightOp all_reduce(std::uint64_t number, std::uint64_t elements = 1024) {
  FlightOp op;
  op.number = number;
  op.op = "all_reduce";
  op.type = "float32";
  op.reduction = "sum";
  op.tensors = 1;
  op.elements = elements;
  op.shapes = {{static_cast<std::int64_t>(elements)}};
  return op;
}

FlightOp message(const char* way, int peer) {
  FlightOp op = all_reduce(1, 4);
  op.op = way;
  op.message = true;
  op.peer = peer;
  op.reduction.clear();
  return op;
}

// The file of one rank, made call by call.
class File {
 public:
  File(int rank, int world_size) {
    reading_.path = fmt::format("flight_rank{}.json", rank);
    reading_.job = "job";
    reading_.rank = rank;
    reading_.world_size = world_size;
    reading_.cause = "signal";
    reading_.now_ns = kNow;
  }

  File& group(const std::string& name, int rank, int size) {
    reading_.parts.push_back({static_cast<std::uint32_t>(reading_.parts.size() + 1), "key " + name, name, rank, size});
    return *this;
  }
  File& done(FlightOp op) { return add(std::move(op), FlightOp::State::done); }
  File& in(FlightOp op, std::int64_t seconds = 30) { return add(std::move(op), FlightOp::State::running, seconds); }
  File& in_for_ms(FlightOp op, std::int64_t ms) {
    add(std::move(op), FlightOp::State::running);
    reading_.ops.back().queued_ns = reading_.ops.back().started_ns = kNow - ms * (kSecond / 1000);
    return *this;
  }
  File& failed(FlightOp op) { return add(std::move(op), FlightOp::State::failed); }
  File& caused(int rank, const char* cause = "timed_out") {
    reading_.cause = cause;
    reading_.cause_group = reading_.parts.back().id;
    reading_.cause_rank = rank;
    return *this;
  }
  FlightReading& reading() { return reading_; }
  operator FlightReading() const { return reading_; }

 private:
  // In the last group.
  File& add(FlightOp op, FlightOp::State state, std::int64_t seconds = 31) {
    FlightPart& part = reading_.parts.back();
    op.group = part.id;
    op.serial = reading_.ops.size() + 1;
    op.state = state;
    op.queued_ns = op.started_ns = kNow - seconds * kSecond;
    if (op.is_over()) op.ended_ns = op.started_ns + kSecond;
    if (!op.message) part.queued = op.number;
    if (!op.message && state == FlightOp::State::done) part.finished = op.number;
    reading_.ops.push_back(std::move(op));
    return *this;
  }

  FlightReading reading_;
};

FlightStory told(std::vector<FlightReading> files) {
  auto story = flight_story(std::move(files));
  INFO((story ? "" : story.error().message));
  REQUIRE(story);
  return *story;
}

std::string refused(std::vector<FlightReading> files) {
  auto story = flight_story(std::move(files));
  REQUIRE_FALSE(story);
  return story.error().message;
}

File in_world(int rank) { return std::move(File(rank, 3).group("dtrain_world", rank, 3)); }

}  // namespace

TEST_CASE("a rank that has not called what the others wait in is named, with what it does") {
  FlightReading absent = in_world(2).done(all_reduce(40)).group("pipe", 0, 2).in(message("recv", 1), 29);
  const auto story = told({absent, in_world(0).done(all_reduce(40)).failed(all_reduce(41)).caused(2),
                           in_world(1).done(all_reduce(40)).in(all_reduce(41), 29)});
  CHECK(story.stuck());
  REQUIRE(story.groups.size() == 2);
  const FlightGroupStory& world = story.groups[0];
  CHECK(world.finished == 40);
  CHECK(world.number == 41);
  REQUIRE(world.absent.size() == 1);
  CHECK(world.absent[0].rank == 2);
  CHECK(world.in.size() == 2);
  CHECK_FALSE(world.differ);
  test::check_golden("flight/missing.txt", flight_text(story));
  test::check_golden("flight/missing.json", flight_json(story));
}

TEST_CASE("calls that differ are shown side by side") {
  FlightOp broadcast = all_reduce(5);
  broadcast.op = "broadcast";
  broadcast.reduction.clear();
  broadcast.root = 0;
  const auto story = told({in_world(0).done(all_reduce(4)).failed(all_reduce(5)),
                           in_world(1).done(all_reduce(4)).failed(all_reduce(5, 999)),
                           in_world(2).done(all_reduce(4)).failed(broadcast)});
  CHECK(story.groups[0].differ);
  test::check_golden("flight/differ.txt", flight_text(story));
}

TEST_CASE("tensors of other sizes are no difference where ranks may have them") {
  FlightOp here = all_reduce(1), there = all_reduce(1, 0);
  here.op = there.op = "gather";
  CHECK_FALSE(told({in_world(0).in(here), in_world(1).in(there), in_world(2).in(there)}).groups[0].differ);
  there.root = 1;
  CHECK(told({in_world(0).in(here), in_world(1).in(there), in_world(2).in(there)}).groups[0].differ);
}

TEST_CASE("ranks that wait for each other in two groups are a circle") {
  const auto story = told({File(0, 2).group("x", 0, 2).in(all_reduce(1)).group("y", 0, 2),
                           File(1, 2).group("x", 1, 2).group("y", 1, 2).in(all_reduce(1))});
  REQUIRE(story.cycle);
  REQUIRE(story.cycle->steps.size() == 2);
  CHECK(story.cycle->steps[0].rank == 0);
  CHECK(story.cycle->steps[0].wait.group == "x");
  CHECK(story.cycle->steps[1].rank == 1);
  CHECK(story.cycle->steps[1].wait.group == "y");
  test::check_golden("flight/circle.txt", flight_text(story));
  // Found from outside the circle.
  const auto outside =
      told({in_world(0).in(all_reduce(1)), File(1, 3).group("dtrain_world", 1, 3).in(all_reduce(1)).group("pair", 0, 2),
            File(2, 3).group("dtrain_world", 2, 3).group("pair", 1, 2).in(message("recv", 0))});
  REQUIRE(outside.cycle);
  REQUIRE(outside.cycle->steps.size() == 2);
  CHECK(outside.cycle->steps[0].rank == 1);
  CHECK(outside.cycle->steps[1].rank == 2);
}

TEST_CASE("a collective and a message that wait for each other are a circle, two that meet are none") {
  const auto crossed =
      told({File(0, 2).group("w", 0, 2).in(all_reduce(1)), File(1, 2).group("w", 1, 2).in(message("recv", 0))});
  REQUIRE(crossed.cycle);
  CHECK(crossed.cycle->steps.size() == 2);
  const auto meet =
      told({File(0, 2).group("w", 0, 2).in(message("send", 1)), File(1, 2).group("w", 1, 2).in(message("recv", 0))});
  CHECK_FALSE(meet.cycle);
  CHECK(meet.stuck());
  const auto both =
      told({File(0, 2).group("w", 0, 2).in(message("recv", 1)), File(1, 2).group("w", 1, 2).in(message("recv", 0))});
  CHECK(both.cycle);
}

TEST_CASE("receives that were posted ahead are no circle where others are missing, and do not hide one") {
  const auto ahead = [](int rank) { return std::move(in_world(rank).in(message("recv", 1 - rank))); };
  CHECK_FALSE(told({ahead(0).in(all_reduce(1)), ahead(1).in(all_reduce(1)), in_world(2)}).cycle);
  CHECK_FALSE(told({ahead(0).in(all_reduce(1)), ahead(1).in(all_reduce(1))}).cycle);
  const auto both = told({ahead(0).in(all_reduce(1)), ahead(1), in_world(2)});
  REQUIRE(both.cycle);
  CHECK(both.cycle->steps[0].wait.op.op == "all_reduce");
  CHECK(told({ahead(0), ahead(1), in_world(2)}).cycle);
}

TEST_CASE("a message that does not fit is told as such, and what failed with it waits for nothing") {
  FlightOp sent = message("send", 0);
  sent.elements = 6;
  sent.shapes = {{6}};
  FlightOp later = message("recv", 1);
  later.tag = 7;
  const auto story = told({File(0, 2).group("w", 0, 2).failed(message("recv", 1)).failed(later).caused(0, "mismatched"),
                           File(1, 2).group("w", 1, 2).done(sent).caused(0, "mismatched")});
  CHECK(story.stuck());
  REQUIRE(story.groups[0].misfit);
  CHECK(story.groups[0].misfit->rank == 0);
  CHECK(story.groups[0].waiting.empty());
  CHECK_THAT(flight_text(story),
             Catch::EndsWith("\na message to rank 0 does not fit its recv from rank 1 (float32 [4]) of "
                             "group w\n"));
  // A collective that does not fit takes messages along, and those of another group have failed before.
  const auto collective =
      told({File(0, 2).group("w", 0, 2).failed(all_reduce(1)).failed(message("recv", 1)).caused(0, "mismatched"),
            File(1, 2).group("w", 1, 2).failed(all_reduce(1, 7)).caused(0, "mismatched")});
  CHECK_FALSE(collective.groups[0].misfit);
  CHECK(collective.groups[0].waiting.empty());
  const auto before = told({File(0, 2).group("v", 0, 2).failed(message("recv", 1)).group("w", 0, 2).caused(1),
                            File(1, 2).group("v", 1, 2).group("w", 1, 2)});
  CHECK_FALSE(before.stuck());
  const auto waited =
      told({File(0, 2).group("w", 0, 2).failed(message("recv", 1)).caused(1), File(1, 2).group("w", 1, 2)});
  CHECK(waited.groups[0].waiting.size() == 1);
}

TEST_CASE("ranks without a file are said, and what is missing is theirs") {
  const auto story = told({in_world(0).done(all_reduce(7)).failed(all_reduce(8)).caused(1)});
  CHECK(story.without_file == std::vector<int>{1, 2});
  CHECK(story.groups[0].without_file == 2);
  test::check_golden("flight/alone.txt", flight_text(story));
}

TEST_CASE("where nothing stands still that is said") {
  const auto story =
      told({in_world(0).done(all_reduce(1)), in_world(1).done(all_reduce(1)), in_world(2).done(all_reduce(1))});
  CHECK_FALSE(story.stuck());
  CHECK_THAT(flight_text(story), Catch::Contains("no collective or message stands still"));
  CHECK(story.groups[0].last->number == 1);
}

TEST_CASE("of a job that goes on files on a signal differ by moments, and nothing stands still") {
  const auto after = [](std::int64_t ms, int rank, bool by_signal) {
    File other = in_world(rank).in_for_ms(message("recv", 1 - rank), 3).in_for_ms(all_reduce(1), ms);
    if (!by_signal) other.caused(2);
    return told({in_world(1 - rank).in_for_ms(message("recv", rank), 2), other, in_world(2)});
  };
  const auto story = after(999, 0, true);
  CHECK(story.groups[0].absent.size() == 2);
  CHECK_FALSE(story.stuck());
  CHECK_FALSE(story.cycle);
  CHECK_THAT(flight_text(story), Catch::EndsWith("\nnothing has stood still for longer than 999 ms\n"));
  CHECK(after(1000, 0, true).stuck());
  CHECK_THAT(flight_text(after(1000, 1, true)), Catch::Contains("missing in all_reduce #1"));
  CHECK(after(5, 1, false).stuck());
  CHECK_FALSE(told({in_world(0).done(all_reduce(1)), in_world(1), in_world(2)}).stuck());  // nobody waits
  FlightReading forgotten = in_world(0).in(all_reduce(1));
  forgotten.ops.clear();
  CHECK(told({forgotten, in_world(1), in_world(2)}).stuck());
}

TEST_CASE("a rank that is through is not missing") {
  const auto story =
      told({in_world(0).done(all_reduce(1)), in_world(1).in(all_reduce(1)), in_world(2).in(all_reduce(1))});
  REQUIRE(story.groups[0].past.size() == 1);
  CHECK(story.groups[0].past[0].rank == 0);
  CHECK(story.groups[0].absent.empty());
  CHECK(story.groups[0].number == 1);
}

TEST_CASE("a rank that has done its part and gone on is told with what it is in now") {
  FlightOp given = all_reduce(66, 64);
  given.op = "broadcast";
  given.reduction.clear();
  given.root = 0;
  given.origin = "Ddp forward: buffers";
  FlightOp next = all_reduce(67, 2228);
  next.origin = "Ddp backward, bucket 1 of 3";
  const auto story =
      told({in_world(0).done(all_reduce(65)).done(given).failed(next).caused(1),
            in_world(1).done(all_reduce(65)).caused(1), in_world(2).done(all_reduce(65)).in(given).caused(1)});
  CHECK(story.groups[0].number == 66);
  const std::string text = flight_text(story);
  CHECK_THAT(
      text, Catch::Contains("  broadcast #66 (float32 [64], root 0; Ddp forward: buffers): rank 0 has done its part\n"
                            "    it is in all_reduce #67 (sum, float32 [2228]; Ddp backward, bucket 1 of 3) of group"));
  CHECK_THAT(text, Catch::Contains("rank 1 has not called it"));
  CHECK_THAT(text, Catch::EndsWith("\nrank 1 is missing in broadcast #66 of group dtrain_world\n"));
  CHECK_THAT(flight_json(story), Catch::Contains("\"origin\": \"Ddp forward: buffers\""));
}

TEST_CASE("records that are gone are counted all the same") {
  FlightReading behind = in_world(2).done(all_reduce(40));
  behind.ops.clear();
  FlightReading waits = in_world(1).in(all_reduce(41));
  waits.parts[0].finished = 40;
  const auto story = told({behind, waits});
  CHECK(story.groups[0].number == 41);
  REQUIRE(story.groups[0].absent.size() == 1);
  CHECK(story.groups[0].absent[0].called == 40);
  CHECK_FALSE(story.groups[0].absent[0].last);
  CHECK_THAT(flight_text(story), Catch::Contains("its last one is #40"));
}

TEST_CASE("files of one job and of its last round belong together") {
  FlightReading first = in_world(0), second = in_world(1), again = in_world(0);
  second.round = 1;
  const auto story = told({first, second});
  CHECK(story.ranks == std::vector<int>{1});
  CHECK(story.other_rounds == std::vector<std::string>{"flight_rank0.json"});
  again.path = "b";
  CHECK(refused({first, again}) == "flight_rank0.json and b are both of rank 0");
  again.job = "other";
  CHECK(refused({first, again}) == "b is of job other, and flight_rank0.json of job job: name the files of one job");
}

TEST_CASE("the worker's file is understood") {
  const auto reading = read_flight(test::read_golden("flight/flight_rank1.json"), "f");
  INFO((reading ? "" : reading.error().message));
  REQUIRE(reading);
  CHECK(reading->rank == 1);
  CHECK(reading->world_size == 3);
  CHECK(reading->job == "job-1");
  CHECK(reading->round == 2);
  CHECK(reading->cause == "timed_out");
  CHECK(reading->cause_rank == 2);
  REQUIRE(reading->parts.size() == 2);
  CHECK(reading->parts[0].finished == 1);
  CHECK(reading->parts[0].queued == 3);
  REQUIRE(reading->ops.size() == 4);
  CHECK(reading->ops[1].op == "reduce");
  CHECK(reading->ops[1].root == 2);
  CHECK(reading->ops[1].state == FlightOp::State::failed);
  CHECK(reading->ops[3].message);
  CHECK(reading->ops[3].peer == 1);
  CHECK(reading->ops[3].shapes == std::vector<std::vector<std::int64_t>>{{3, 4}});
  test::check_golden("flight/one_file.txt", flight_text(told({*reading})));
}

TEST_CASE("a file that is none of ours is refused with what is wrong") {
  using Json = nlohmann::json;
  const Json good = Json::parse(test::read_golden("flight/flight_rank1.json"));
  const auto wrong = [](const std::string& text) {
    auto reading = read_flight(text, "a/b.json");
    REQUIRE_FALSE(reading);
    CHECK(reading.error().kind == ErrorKind::usage);
    return reading.error().message;
  };
  const auto with = [&](const std::string& pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    return wrong(changed.dump());
  };
  CHECK(wrong("{") == "a/b.json is not a file of the flight recorder: it is not JSON, or not all of it");
  CHECK(wrong("[1]") == "a/b.json is not a file of the flight recorder");
  CHECK_THAT(with("/version", 2), Catch::Contains("it has version 2, and this dtrain reads version 1"));
  CHECK_THAT(with("/rank", 3), Catch::Contains("'rank' is out of its range"));
  CHECK_THAT(with("/groups/0/rank", -1), Catch::Contains("'rank' is out of its range"));
  CHECK_THAT(with("/groups/1/id", 1), Catch::Contains("two groups have the same id"));
  CHECK_THAT(with("/groups/0/finished", 9), Catch::Contains("'finished' is more than 'queued'"));
  CHECK_THAT(with("/records/0/group", 77), Catch::Contains("a record belongs to no group"));
  CHECK_THAT(with("/records/0/state", "odd"), Catch::Contains("'state' is unknown"));
  CHECK_THAT(with("/records/0/shapes", "x"), Catch::Contains("'shapes' is not a list"));
  CHECK_THAT(with("/records/0/elements", 1.5), Catch::Contains("'elements' is out of its range"));
  CHECK_THAT(with("/records/0/op", 7), Catch::Contains("'op' is not a text"));
  CHECK_THAT(with("/records/0", 7), Catch::Contains("is not an object"));
}

}  // namespace dtrain::cli
