// What all ranks agree to reduce, and what is said when they cannot.
#include "test/support/catch.h"
#include "test/unit/strategies/hvd_cycles.h"

using namespace dtrain;
using namespace dtrain::hvd;
using namespace dtrain::hvd::test;
using namespace std::chrono_literals;

using Names = std::vector<std::string>;

TEST_CASE("hvd: a tensor is ready once every rank has submitted it") {
  Ranks ranks(3);
  ranks.submit(0, wants("a"));
  ranks.submit(0, wants("b"));
  ranks.submit(1, wants("b"));
  ranks.submit(1, wants("a"));
  CHECK(ranks.ready().empty());
  ranks.submit(2, wants("b"));
  CHECK(ranks.ready() == Names{"b"});
  CHECK(ranks[2].idle());
  CHECK_FALSE(ranks[0].idle());
  ranks.submit(2, wants("a"));
  CHECK(ranks.ready() == Names{"a"});
  CHECK(ranks.ready().empty());
  CHECK(ranks[0].idle());
  CHECK(ranks.same);
}

TEST_CASE("hvd: what was reduced before costs a bit and no request, in the order of the first time") {
  Ranks ranks(2);
  for (int step = 0; step < 4; ++step) {
    ranks.submit(0, wants("b"));
    ranks.submit(0, wants("a"));
    ranks.submit(1, wants("a"));
    ranks.submit(1, wants("b"));
    CHECK(ranks.ready() == Names{"b", "a"});
  }
  CHECK(ranks.exchanges == 1);
  CHECK(ranks.same);
}

TEST_CASE("hvd: tensors that differ between ranks are an error on all, with both sides") {
  const auto failure = [](const Request& first, const Request& second, bool cached) {
    Ranks ranks(3);
    if (cached) {
      ranks.submit_all(first);
      if (!first.group.empty()) ranks.submit_all(in_group("other", first.group, first.members));
      CHECK_FALSE(ranks.ready().empty());
    }
    ranks.submit(0, first);
    ranks.submit(2, first);
    ranks.submit(1, second);
    const auto outcomes = ranks.cycle();
    CHECK(ranks.same);
    REQUIRE(outcomes[2].failure);
    CHECK(outcomes[2].failure->kind() == FailureKind::mismatched);
    return std::string(outcomes[2].failure->what());
  };
  const bool cached = GENERATE(false, true);
  CHECK(
      failure(wants("w", {2, 3}), wants("w", {6}), cached) ==
      "dtrain: tensor 'w' is not the same on all ranks: Float [2, 3] on cpu, average on rank 0, but Float [6] on cpu, "
      "average on rank 1");
  CHECK_THAT(failure(wants("w"), wants("w", {4}, "Double"), cached), Catch::Contains("but Double [4]"));
  CHECK_THAT(failure(wants("w"), wants("w", {4}, "Float", "sum"), cached), Catch::Contains("cpu, sum on rank 1"));
  CHECK_THAT(failure(in_group("w", "g", 2), in_group("w", "g", 3), cached), Catch::Contains("one of 3 in group 'g'"));
}

TEST_CASE("hvd: a tensor that changes its shape on all ranks goes by request once more") {
  Ranks ranks(2);
  ranks.submit_all(wants("a"));
  ranks.submit_all(wants("b"));
  ranks.ready();
  ranks.submit(0, wants("a", {5}));
  ranks.submit(1, wants("b"));
  CHECK(ranks.ready().empty());
  ranks.submit(1, wants("a", {5}));
  CHECK(ranks.ready() == Names{"a"});
  ranks.submit(0, wants("b"));
  CHECK(ranks.ready() == Names{"b"});
  ranks.submit_all(wants("a", {5}));
  CHECK(ranks.ready() == Names{"a"});
  CHECK(ranks.exchanges == 3);
  CHECK(ranks.same);
}

TEST_CASE("hvd: a group is ready as a whole, cached or not") {
  Ranks ranks(2);
  for (int step = 0; step < 3; ++step) {
    ranks.submit_all(in_group("a", "g", 3));
    ranks.submit_all(wants("single"));
    ranks.submit(0, in_group("c", "g", 3));
    CHECK(ranks.ready() == Names{"single"});
    CHECK_FALSE(ranks[1].idle());
    ranks.submit(1, in_group("c", "g", 3));
    CHECK(ranks.ready().empty());
    ranks.submit_all(in_group("b", "g", 3));
    CHECK(ranks.ready() == Names{"a", "c", "b"});
    CHECK(ranks[1].idle());
  }
  CHECK(ranks.same);
}

TEST_CASE("hvd: a rank that has joined is not waited for") {
  Ranks ranks(3);
  ranks.submit_all(wants("a"));
  ranks.ready();
  ranks.submit(0, wants("new"));
  ranks.submit(1, wants("new"));
  CHECK(ranks.ready().empty());
  ranks[2].join();
  CHECK(ranks.ready() == Names{"new"});
  ranks.submit(0, wants("a"));
  CHECK(ranks.ready().empty());
  ranks.submit(1, wants("a"));
  CHECK(ranks.ready() == Names{"a"});
  ranks[0].join();
  CHECK(ranks.ready().empty());
  ranks.submit(1, wants("a"));
  CHECK(ranks.ready() == Names{"a"});
  ranks[1].join();
  const auto last = ranks.cycle();
  CHECK(last[0].all_joined == 1);
  CHECK(last[2].ready.empty());  // nobody has anything, whatever the bits say
  ranks.submit(0, wants("a"));
  ranks.submit(1, wants("a"));
  CHECK(ranks.ready().empty());
  ranks.submit(2, wants("a"));
  CHECK(ranks.ready() == Names{"a"});
  CHECK(ranks.same);
}

TEST_CASE("hvd: what a rank's joining completes may take the slot of what is reduced in the same cycle") {
  Ranks ranks(3, {1, 0s, 0s});
  ranks.submit_all(wants("a"));
  CHECK(ranks.ready() == Names{"a"});
  ranks.submit(0, wants("new"));
  ranks.submit(1, wants("new"));
  CHECK(ranks.ready().empty());
  ranks.submit(0, wants("a"));
  ranks.submit(1, wants("a"));
  ranks[2].join();
  CHECK(ranks.ready() == Names{"a", "new"});
  CHECK(ranks.ready().empty());
  CHECK(ranks.same);
}

TEST_CASE("hvd: what is past the limit and completed by a rank's joining is reduced") {
  Ranks ranks(2, {1024, 60s, 10s});
  ranks.submit(0, wants("a"));
  ranks.cycle();
  ranks.now += 10s;
  ranks[1].join();
  const auto outcomes = ranks.cycle();
  CHECK_FALSE(outcomes[0].failure);
  CHECK(names(outcomes[0].ready) == Names{"a"});
  CHECK(ranks.same);
}

TEST_CASE("hvd: adasum has no zeros of those who have joined") {
  Ranks ranks(2);
  ranks[1].join();
  ranks.submit(0, wants("a", {4}, "Float", "adasum"));
  const auto outcomes = ranks.cycle();
  REQUIRE(outcomes[0].failure);
  CHECK(std::string(outcomes[0].failure->what()) == "dtrain: tensor 'a': adasum cannot go on after rank 1 has joined");
  CHECK(ranks.same);
}

TEST_CASE("hvd: all know who ended") {
  Ranks ranks(4);
  ranks.submit(0, wants("a"));
  ranks[1].leave();
  ranks[3].leave();
  CHECK(ranks.cycle()[0].left == std::vector<int>{1, 3});
  CHECK(ranks.same);
}

TEST_CASE("hvd: a tensor that stalls is said with the ranks that miss it, cached or not, and once in a while") {
  const bool cached = GENERATE(false, true);
  Ranks ranks(3, {1024, 60s, 0s});
  if (cached) {
    for (const char* name : {"a", "b", "c"}) ranks.submit_all(wants(name));
    ranks.ready();
  }
  ranks.submit(0, wants("a"));
  ranks.submit(0, wants("b"));
  ranks.submit(2, wants("b"));
  ranks.submit(1, wants("c"));
  ranks.submit(2, wants("c"));
  ranks.cycle();
  CHECK_FALSE(ranks[0].stalled());
  ranks.now += 60s;
  ranks.cycle();
  const std::string line =
      "for 60 s or more, rank 0 has not submitted 'c'; rank 1 has not submitted 'b'; ranks 1, 2 have not submitted 'a'";
  CHECK(ranks[0].stalled() == line);
  CHECK(ranks[2].stalled() == line);
  CHECK_FALSE(ranks[0].stalled());
  ranks.now += 59s;
  ranks.cycle();
  CHECK_FALSE(ranks[0].stalled());
  ranks.now += 1s;
  ranks.cycle();
  CHECK(ranks[0].stalled() == line);
  ranks.submit(1, wants("a"));
  ranks.submit(2, wants("a"));
  ranks.submit(1, wants("b"));
  ranks.submit(0, wants("c"));
  CHECK(ranks.ready().size() == 3);
  ranks.now += 120s;
  ranks.cycle();
  CHECK_FALSE(ranks[0].stalled());
  CHECK(ranks.same);
}

TEST_CASE("hvd: a group's ranks are called what the session calls them, whatever names tensors have") {
  const RankNames pair{"pair", {7, 4}};
  Ranks differ(2, {}, pair);
  differ.submit(0, wants("rank 0", {2}));
  differ.submit(1, wants("rank 0", {3}));
  const auto failure = differ.cycle()[0].failure;
  REQUIRE(failure);
  CHECK(failure->rank() == 4);
  CHECK(std::string(failure->what()) ==
        "dtrain: group 'pair' (ranks 7, 4): tensor 'rank 0' is not the same on all ranks: Float [2] on cpu, average on "
        "rank 7, but Float [3] on cpu, average on rank 4");

  Ranks stalls(2, {.stall_warning = 1s, .stall_failure = 5s}, pair);
  stalls.submit(1, wants("a"));
  stalls.cycle();
  stalls.now += 2s;
  stalls.cycle();
  CHECK(stalls[0].stalled() == "group 'pair' (ranks 7, 4): for 1 s or more, rank 7 has not submitted 'a'");
  stalls.now += 4s;
  const auto limit = stalls.cycle()[1].failure;
  REQUIRE(limit);
  CHECK(limit->rank() == 7);
  CHECK(std::string(limit->what()) ==
        "dtrain: group 'pair' (ranks 7, 4): tensor 'a' was not submitted by rank 7 for 5 s");
}

TEST_CASE("hvd: many stalled tensors are one line") {
  Ranks ranks(2, {0, 1s, 0s});
  for (int i = 0; i < 9; ++i) ranks.submit(0, wants("t" + std::to_string(i)));
  ranks.now += 1500ms;
  ranks.cycle();
  CHECK(ranks[0].stalled() == "for 1 s or more, rank 1 has not submitted 't0', 't1', 't2', 't3', 't4' and 4 more");
}

TEST_CASE("hvd: a group that stalls is said, also where no rank has the rest of it") {
  Ranks ranks(2, {1024, 1s, 3s});
  ranks.submit_all(in_group("a", "g", 2));
  ranks.cycle();
  ranks.now += 1s;
  ranks.cycle();
  CHECK(ranks[0].stalled() == "for 1 s or more, group 'g' waits for 1 of its tensors");
  ranks.now += 2s;
  const auto outcomes = ranks.cycle();
  REQUIRE(outcomes[1].failure);
  CHECK(std::string(outcomes[1].failure->what()) == "dtrain: group 'g' waits for 1 of its tensors for 3 s");
}

TEST_CASE("hvd: past the limit a stalled tensor is an error on all ranks, whoever notices") {
  const bool cached = GENERATE(false, true);
  Ranks ranks(3, {1024, 0s, 10s});
  if (cached) {
    ranks.submit_all(wants("a"));
    ranks.ready();
  }
  ranks.submit(1, wants("a"));
  ranks.cycle();
  ranks.now += 10s;
  auto outcomes = ranks.cycle();
  if (cached) outcomes = ranks.cycle();  // the first one told the others who has it
  REQUIRE(outcomes[0].failure);
  CHECK(outcomes[0].failure->kind() == FailureKind::timed_out);
  CHECK(outcomes[0].failure->rank() == 0);
  CHECK(std::string(outcomes[0].failure->what()) == "dtrain: tensor 'a' was not submitted by ranks 0, 2 for 10 s");
  CHECK(ranks.same);
}

namespace {

struct Job {
  int ranks;
  std::size_t capacity;
  std::vector<Request> tensors{};
  int steps = 6;
};

Job random_job(std::mt19937& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  Job job{static_cast<int>(1 + below(5)), std::vector<std::size_t>{0, 1, 3, 7, 1024}[below(5)]};
  const std::size_t count = 1 + below(14);
  const std::size_t grouped = below(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    Request request = wants("t" + std::to_string(i), {static_cast<std::int64_t>(1 + below(40))},
                            below(3) == 0 ? "Double" : "Float", below(4) == 0 ? "sum" : "average");
    if (i < grouped) {
      request.group = "g" + std::to_string(i / 4);
      request.members = static_cast<std::int64_t>(std::min(grouped, i / 4 * 4 + 4) - i / 4 * 4);
    }
    job.tensors.push_back(request);
  }
  return job;
}

// Where one rank is in its program.
struct Program {
  int step = 0;
  std::vector<Request> left;  // of the step, in this rank's order
  std::size_t waits_for = 0;
};

void begin_step(Program& program, const Job& job, std::mt19937& random) {
  program.left = job.tensors;
  std::shuffle(program.left.begin(), program.left.end(), random);
  program.waits_for = job.tensors.size();
}

}  // namespace

TEST_CASE("hvd: in thousands of jobs every tensor is reduced once a step, and all ranks do the same") {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    const Job job = random_job(random);
    Ranks ranks(job.ranks, {job.capacity, 0s, 0s});
    std::vector<Program> programs(static_cast<std::size_t>(job.ranks));
    for (Program& program : programs) begin_step(program, job, random);
    std::map<std::string, int> reduced;
    int cycles = 0;
    int exchanges_in_first_step = 0;
    const auto running = [&](const Program& program) { return program.step < job.steps; };
    for (; std::any_of(programs.begin(), programs.end(), running) && cycles < 5000; ++cycles) {
      for (std::size_t r = 0; r < programs.size(); ++r) {
        for (auto burst = random() % 4; burst > 0 && !programs[r].left.empty(); --burst) {
          ranks.submit(static_cast<int>(r), programs[r].left.back());
          programs[r].left.pop_back();
        }
      }
      const Outcome outcome = ranks.cycle()[0];
      if (outcome.failure) FAIL("seed " << seed << ": " << outcome.failure->what());
      const std::int64_t threshold = random() % 200;
      std::size_t fused = 0;
      for (const auto& part : plan_fusion(outcome.ready, threshold)) {
        std::int64_t bytes = 0;
        for (const std::size_t i : part) bytes += outcome.ready[i].bytes;
        if (part.size() > 1 && bytes > threshold) FAIL("seed " << seed << ": " << bytes << " bytes fused");
        fused += part.size();
      }
      if (fused != outcome.ready.size()) FAIL("seed " << seed << ": not everything fused");
      for (const Request& request : outcome.ready) ++reduced[request.name];
      for (Program& program : programs) {
        program.waits_for -= outcome.ready.size();
        if (program.waits_for > 0 || program.step == job.steps) continue;
        if (++program.step == 1) exchanges_in_first_step = ranks.exchanges;
        if (program.step < job.steps) begin_step(program, job, random);
      }
    }
    if (!ranks.same) FAIL("seed " << seed << ": ranks differ");
    if (cycles == 5000) FAIL("seed " << seed << ": stuck");
    for (const Request& request : job.tensors) {
      if (reduced[request.name] != job.steps) FAIL("seed " << seed << ": " << request.name << " was reduced otherwise");
    }
    if (job.capacity >= job.tensors.size() && ranks.exchanges != exchanges_in_first_step)
      FAIL("seed " << seed << ": requests after the first step");
  }
}

TEST_CASE("hvd: the last tensor of a step is known, so that nobody waits for more") {
  Ranks ranks(2);
  const auto here = [&] { return std::array{ranks[0].all_here(), ranks[1].all_here()}; };
  const std::array neither{false, false};
  for (const char* name : {"a", "b", "c"}) ranks.submit_all(wants(name));
  CHECK(here() == neither);  // none was reduced before
  CHECK(ranks.ready() == Names{"a", "b", "c"});
  for (int step = 0; step < 3; ++step) {
    ranks.submit_all(wants("b"));
    CHECK(here() == neither);
    CHECK(ranks.ready() == Names{"b"});
    ranks.submit_all(wants("a"));
    ranks.submit(0, wants("c"));
    CHECK(here() == std::array{true, false});
    ranks.submit(1, wants("c"));
    CHECK(here() == std::array{true, true});
    CHECK(ranks.ready() == Names{"a", "c"});
    CHECK(here() == neither);  // or cycles would follow each other without a pause
  }
  ranks.submit_all(wants("once"));
  ranks.ready();
  for (const char* name : {"a", "b", "c"}) ranks.submit_all(wants(name));
  CHECK(here() == neither);
}
