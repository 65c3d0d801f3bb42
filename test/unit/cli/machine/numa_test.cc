#include "cli/machine/numa.h"

#include <cstdlib>
#include <string>

#include "cli/machine/topology.h"
#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

// A machine as hwloc describes it in one line; read by the library itself.
std::vector<CpuFacts> machine(const std::string& synthetic) {
  setenv("HWLOC_SYNTHETIC", synthetic.c_str(), 1);
  setenv("HWLOC_THISSYSTEM", "1", 1);
  auto cpus = read_topology();
  unsetenv("HWLOC_SYNTHETIC");
  unsetenv("HWLOC_THISSYSTEM");
  INFO((cpus.ok() ? "" : cpus.error().message));
  REQUIRE(cpus.ok());
  return *cpus;
}

// The sets as "0-3 4-7", or the error.
std::string bound(const std::vector<CpuFacts>& cpus, const std::vector<int>& nodes, int workers, NumaMode mode) {
  auto sets = bind_workers(cpus, nodes, workers, mode);
  if (!sets) return sets.error().message;
  std::string text;
  for (const auto& set : *sets) text += (text.empty() ? "" : " ") + launcher::cpu_ranges(set);
  return text;
}

// Two sockets of two NUMA nodes with two caches of two cores with two threads: 32 CPUs, numbered along the tree.
const char* const kLarge = "package:2 numa:2 l3:2 core:2 pu:2";

constexpr auto kNode = NumaMode::node;
constexpr auto kSocket = NumaMode::socket;
constexpr auto kExclusive = NumaMode::exclusive;
constexpr auto kComplex = NumaMode::core_complex;

}  // namespace

TEST_CASE("hwloc's facts: cores, caches, nodes and sockets of every CPU") {
  auto cpus = machine(kLarge);
  REQUIRE(cpus.size() == 32);
  const CpuFacts& one = cpus[13];
  CHECK(one.cpu == 13);
  CHECK(one.core == 12);
  CHECK(one.cache == 12);
  CHECK(one.node == 1);
  CHECK(one.package == 0);
  CHECK(cpus[31].package == 1);
  CHECK(cpus[31].node == 3);
  CHECK(machine("core:2 pu:1")[1].cache == -1);
}

TEST_CASE("each mode on a machine with four nodes and eight GPUs") {
  auto cpus = machine(kLarge);
  const std::vector<int> gpus = {0, 0, 1, 1, 2, 2, 3, 3};
  CHECK(bound(cpus, gpus, 8, kNode) == "0-7 0-7 8-15 8-15 16-23 16-23 24-31 24-31");
  CHECK(bound(cpus, gpus, 8, kSocket) == "0-15 0-15 0-15 0-15 16-31 16-31 16-31 16-31");
  CHECK(bound(cpus, gpus, 8, kExclusive) == "0-3 4-7 8-11 12-15 16-19 20-23 24-27 28-31");
  CHECK(bound(cpus, gpus, 8, kComplex) == "0-3 4-7 8-11 12-15 16-19 20-23 24-27 28-31");
  // GPUs that no worker has keep their share.
  CHECK(bound(cpus, gpus, 1, kExclusive) == "0-3");
  CHECK(bound(cpus, {3, 0}, 2, kNode) == "24-31 0-7");
}

TEST_CASE("exclusive: cores stay whole, and the first GPUs get what is left over") {
  auto cpus = machine("numa:1 core:7 pu:2");
  CHECK(bound(cpus, {0, 0, 0}, 3, kExclusive) == "0-5 6-9 10-13");
  CHECK(bound(cpus, {0}, 1, kExclusive) == "0-13");
  CHECK(bound(cpus, std::vector<int>(8, 0), 1, kExclusive) ==
        "NUMA node 0 has 7 physical cores for 8 workers or GPUs; use node or socket");
}

TEST_CASE("core-complex: the largest first, and then again from the first") {
  auto cpus = machine("numa:1 l3:3 core:2 pu:1");
  CHECK(bound(cpus, {0, 0, 0, 0}, 4, kComplex) == "0-1 2-3 4-5 0-1");
  // Without CPU 0 the first complex is the smallest.
  cpus.erase(cpus.begin());
  CHECK(bound(cpus, {0, 0, 0}, 3, kComplex) == "2-3 4-5 1");
  // No cache known: the node is one complex.
  CHECK(bound(machine("numa:2 core:2 pu:1"), {0, 1}, 2, kComplex) == "0-1 2-3");
}

TEST_CASE("only CPUs that the process may use count, and a node without one is an error") {
  auto cpus = machine(kLarge);
  std::erase_if(cpus, [](const CpuFacts& facts) { return facts.cpu % 2 == 1 || facts.node == 1; });
  CHECK(bound(cpus, {0}, 1, kNode) == "0,2,4,6");
  CHECK(bound(cpus, {0, 0, 0, 0}, 4, kExclusive) == "0 2 4 6");
  CHECK(bound(cpus, {0}, 1, kSocket) == "0,2,4,6");
  CHECK(bound(cpus, {0, 1}, 2, kNode) ==
        "local rank 1 belongs to NUMA node 1, none of whose cores this process may use");
}

TEST_CASE("without GPUs the workers take the nodes in turn") {
  CHECK(nodes_in_turn(machine(kLarge), 6) == std::vector<int>{0, 1, 2, 3, 0, 1});
  CHECK(nodes_in_turn({}, 2).empty());
}

TEST_CASE("a description of another machine is refused") {
  setenv("HWLOC_SYNTHETIC", "core:2 pu:1", 1);
  auto cpus = read_topology();
  unsetenv("HWLOC_SYNTHETIC");
  REQUIRE_FALSE(cpus.ok());
  CHECK(cpus.error().message.find("describes another machine") != std::string::npos);
}

TEST_CASE("this machine's topology has every CPU that we may use") {
  auto cpus = read_usable_topology();
  REQUIRE(cpus.ok());
  CHECK(cpus->size() == launcher::allowed_cpus().size());
}

TEST_CASE("sets of CPUs are written as the kernel writes them") {
  CHECK(launcher::cpu_ranges({}).empty());
  CHECK(launcher::cpu_ranges({7}) == "7");
  CHECK(launcher::cpu_ranges({0, 1, 2, 4, 6, 7}) == "0-2,4,6-7");
}

}  // namespace dtrain::cli
