// What cgroups leave a process of its machine's cores.
#include "strategies/comm/bootstrap/own_cores.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "test/support/catch.h"
#include "test/support/skip.h"
#include "test/unit/strategies/ranks.h"
#include "test/unit/strategies/variables.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

int quota_of(const Variables& files) {
  return core_quota([&](const std::string& path) { return lookup_in(files)(path.c_str()).value_or(""); }).cores;
}

// A cgroup with the time of one core; the folder is empty where the machine lets nobody make one.
class OneCore {
 public:
  OneCore() {
    const std::filesystem::path folder = fmt::format("/sys/fs/cgroup/cpu/dtrain_test_{}", ::getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(folder, error)) return;
    path = folder;
    std::ofstream(path / "cpu.cfs_quota_us") << 100'000;
    std::ofstream(path / "cpu.cfs_period_us") << 100'000;
  }
  ~OneCore() {
    std::error_code error;
    if (!path.empty()) std::filesystem::remove(path, error);
  }
  std::filesystem::path path;
};

}  // namespace

TEST_CASE("a quota is that of the own cgroup or of one above it, whichever is less") {
  CHECK(quota_of({}) == 0);
  CHECK(quota_of({{"/proc/self/cgroup", "0::/\n"}}) == 0);
  Variables files{{"/proc/self/cgroup", "0::/job/step\n"},
                  {"/sys/fs/cgroup/job/step/cpu.max", "max 100000\n"},
                  {"/sys/fs/cgroup/job/cpu.max", "450000 100000\n"}};
  CHECK(quota_of(files) == 4);
  files["/sys/fs/cgroup/job/step/cpu.max"] = "50000 100000\n";
  CHECK(quota_of(files) == 1);
  files["/sys/fs/cgroup/job/step/cpu.max"] = "nonsense";
  CHECK(quota_of(files) == 4);
  // In a container with a view of its own, and in one that shows a path of outside.
  CHECK(quota_of({{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}) == 2);
  CHECK(quota_of({{"/proc/self/cgroup", "0::/docker/0a\n"}, {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}) == 2);
}

TEST_CASE("a quota of cgroup v1 is found too") {
  const std::string cgroups = "4:memory:/job\n3:cpu,cpuacct:/job\n2:cpuset:/job\n1:name=systemd:/\n0::/\n";
  Variables files{{"/proc/self/cgroup", cgroups},
                  {"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n"},
                  {"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n"}};
  CHECK(quota_of(files) == 3);
  files["/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us"] = "-1\n";
  CHECK(quota_of(files) == 0);
  files["/proc/self/cgroup"] = "3:cpuset,cpuacct:/job\n";
  files["/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us"] = "300000\n";
  CHECK(quota_of(files) == 0);
}

TEST_CASE("a process that is given the time of one core knows it") {
  const OneCore cgroup;
  if (cgroup.path.empty()) DTRAIN_SKIP("no cgroup v1 of cores in which this user may make one");
  const auto outcomes = run_ranks(1, [&](int) {
    std::ofstream(cgroup.path / "cgroup.procs") << ::getpid();
    const CoreQuota quota = core_quota(text_of_file);
    return quota.cgroup == cgroup.path ? std::to_string(quota.cores) : quota.cgroup;
  });
  require_all_returned(outcomes);
  CHECK(outcomes[0].said == "1");
}
