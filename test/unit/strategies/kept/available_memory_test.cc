// How much memory is left, by what the kernel says.
#include "strategies/kept/available_memory.h"

#include "test/support/catch.h"

using namespace dtrain::kept;

TEST_CASE("the machine's available memory is a line of /proc/meminfo") {
  CHECK(available_in("MemTotal:       24689964 kB\nMemAvailable:   23000000 kB\n") == 23000000ULL * 1024);
  CHECK_FALSE(available_in("MemTotal: 1 kB\n"));
  CHECK_FALSE(available_in(""));
}

TEST_CASE("a cgroup has left what its limit allows, and files that can be dropped") {
  CHECK(left_in_group("1000\n", "600\n", "anon 500\ninactive_file 100\n") == 500);
  CHECK(left_in_group("1000\n", "600\n", "") == 400);
  CHECK(left_in_group("500\n", "600\n", "inactive_file 50\n") == 0);
  CHECK_FALSE(left_in_group("max\n", "600\n", ""));
  CHECK_FALSE(left_in_group("", "", ""));
}

TEST_CASE("a cgroup of the first version has a hierarchy for memory") {
  CHECK(left_in_group("1000\n", "600\n", "inactive_file 50\ntotal_inactive_file 100\n") == 500);
  const MemoryGroup first = memory_group("12:cpu,cpuacct:/x\n5:memory:/slurm/job_7\n0::/init.scope\n");
  CHECK(first.first_version);
  CHECK(first.path == "/slurm/job_7");
  CHECK(memory_group("3:hugetlb,memory:/a:b\n").path == "/a:b");
  const MemoryGroup second = memory_group("1:name=systemd:/y\n0::/user.slice/a\n");
  CHECK_FALSE(second.first_version);
  CHECK(second.path == "/user.slice/a");
  CHECK(memory_group("0::/\n").path == "/");
  CHECK(memory_group("").path.empty());
  CHECK(memory_group("nonsense\n:\n").path.empty());
}

TEST_CASE("this machine tells how much it has") {
  REQUIRE(available_memory());
  CHECK(*available_memory() > 0);
}
