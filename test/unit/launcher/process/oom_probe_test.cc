#include "launcher/process/oom_probe.h"

#include <csignal>
#include <random>

#include "launcher/process/cgroup.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {
namespace {
const ExitStatus kKilled = ExitStatus::signaled(SIGKILL, false);
OomCounts counts(std::optional<uint64_t> cgroup, std::optional<uint64_t> machine) {
  return {.cgroup = cgroup, .machine = machine, .limit_bytes = {}, .peak_bytes = {}};
}
}  // namespace

TEST_CASE("counters are found by their whole name") {
  std::string events = "low 0\nhigh 3\nmax 12\noom 2\noom_kill 5\noom_group_kill 1\n";
  CHECK(parse_counter(events, "oom_kill") == 5);
  CHECK(parse_counter(events, "oom") == 2);
  CHECK_FALSE(parse_counter(events, "kill"));
  CHECK(parse_counter("oom_kill_disable 0\nunder_oom 0\noom_kill 1", "oom_kill") == 1);
  CHECK_FALSE(parse_counter("oom_kill -1\n", "oom_kill"));
  CHECK_FALSE(parse_counter("oom_kill 99999999999999999999\n", "oom_kill"));
  CHECK_FALSE(parse_counter("oom_kill", "oom_kill"));
  CHECK_FALSE(parse_counter("", "oom_kill"));
}

TEST_CASE("limits that mean none are none") {
  CHECK(parse_limit("1288490188\n") == 1288490188);
  CHECK_FALSE(parse_limit("max\n"));
  CHECK_FALSE(parse_limit("9223372036854771712\n"));
  CHECK_FALSE(parse_limit(""));
}

TEST_CASE("the own cgroup is found for both versions") {
  std::string both = "12:cpu,cpuacct:/a\n5:memory:/docker/x\n0::/user.slice/s.scope\n";
  CHECK(parse_own_cgroup(both, "") == "/user.slice/s.scope");
  CHECK(parse_own_cgroup(both, "memory") == "/docker/x");
  CHECK(parse_own_cgroup(both, "cpuacct") == "/a");
  CHECK_FALSE(parse_own_cgroup(both, "mem"));
  CHECK_FALSE(parse_own_cgroup("5:memory:relative\n", "memory"));
}

TEST_CASE("the own cgroup is below what is mounted, also where that is a part of the tree") {
  const std::string all = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  const std::string part = "29 23 0:26 /docker/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
  CHECK(own_cgroup_folder(all, "0::/docker/a\n") == "/sys/fs/cgroup/docker/a");
  CHECK(own_cgroup_folder(all, "0::/\n") == "/sys/fs/cgroup");
  CHECK(own_cgroup_folder(part, "0::/docker/a\n") == "/sys/fs/cgroup");
  CHECK(own_cgroup_folder(part, "0::/docker/a/b\n") == "/sys/fs/cgroup/b");
  CHECK(own_cgroup_folder(part, "0::/docker/ab\n") == "/sys/fs/cgroup/docker/ab");
  CHECK_FALSE(own_cgroup_folder(all, "0::/../other\n"));
  CHECK_FALSE(own_cgroup_folder("29 23 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw\n", "0::/\n"));
}

TEST_CASE("the parsers take any bytes") {
  std::mt19937 random(3);
  const std::string alphabet("oom_kill 19:/,\n\0\xff", 18);
  for (int trial = 0; trial < 5000; ++trial) {
    std::string text;
    for (unsigned n = random() % 40; n > 0; --n) text += alphabet[random() % alphabet.size()];
    auto value = parse_counter(text, "oom_kill");
    if (value) REQUIRE(text.find(std::to_string(*value)) != std::string::npos);
    auto path = parse_own_cgroup(text, "memory");
    if (path) REQUIRE(path->front() == '/');
    REQUIRE((!parse_limit(text) || text.find_first_of("19") != std::string::npos));
  }
}

TEST_CASE("only a SIGKILL that dtrain did not send, with a counter that moved, is an out-of-memory kill") {
  CHECK(judge_oom(kKilled, false, counts(0, 0), counts(1, 1)).oom);
  CHECK(judge_oom(kKilled, false, counts({}, 7), counts({}, 8)).oom);
  CHECK_FALSE(judge_oom(kKilled, true, counts(0, 0), counts(1, 1)).oom);
  CHECK_FALSE(judge_oom(kKilled, false, counts(3, 3), counts(3, 3)).oom);
  CHECK_FALSE(judge_oom(kKilled, false, counts({}, {}), counts({}, {})).oom);
  CHECK_FALSE(judge_oom(ExitStatus::signaled(SIGTERM, false), false, counts(0, 0), counts(1, 1)).oom);
  CHECK_FALSE(judge_oom(ExitStatus::exited(137), false, counts(0, 0), counts(1, 1)).oom);
}

TEST_CASE("another job's out-of-memory kill is not taken for ours where the cgroup is known") {
  CHECK_FALSE(judge_oom(kKilled, false, counts(0, 0), counts(0, 1)).oom);
}

TEST_CASE("the evidence names limit and peak") {
  OomCounts after{.cgroup = 2, .machine = 2, .limit_bytes = 1288490189, .peak_bytes = 1288490189};
  CHECK(judge_oom(kKilled, false, counts(0, 0), after).evidence ==
        "the kernel's out-of-memory killer ended 2 processes in the job's cgroup, limit 1.2 GiB, peak 1.2 GiB");
  CHECK(judge_oom(kKilled, false, counts({}, 0), counts({}, 1)).evidence ==
        "the kernel's out-of-memory killer ended 1 process on this machine meanwhile");
}

TEST_CASE("counters of a cgroup folder are read, and this machine has a source") {
  test::TempFolder folder;
  folder.write("memory.events", "oom 1\noom_kill 4\n");
  folder.write("memory.max", "1073741824\n");
  OomCounts read = read_oom_counts(folder.path().string());
  CHECK(read.cgroup == 4);
  CHECK(read.limit_bytes == 1073741824);
  CHECK_FALSE(read.peak_bytes);
  OomCounts own = read_oom_counts("");
  CHECK((own.cgroup || own.machine));
}

}  // namespace dtrain::launcher
