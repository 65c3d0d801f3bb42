#include "cli/machine/topology.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <charconv>

#include "launcher/base/small_file.h"

namespace dtrain::cli {
namespace {

Error no_hwloc(const char* what) {
  return {ErrorKind::system,
          fmt::format("--numa-binding needs hwloc, and {}: install libhwloc15 (Debian, Ubuntu) or hwloc-libs", what)};
}

// The few functions that are used, found at run time: a start without the flag loads no further library.
struct Hwloc {
  decltype(&hwloc_topology_init) init = nullptr;
  decltype(&hwloc_topology_load) load = nullptr;
  decltype(&hwloc_topology_destroy) destroy = nullptr;
  decltype(&hwloc_topology_is_thissystem) is_thissystem = nullptr;
  decltype(&hwloc_get_type_depth) type_depth = nullptr;
  decltype(&hwloc_get_nbobjs_by_depth) count = nullptr;
  decltype(&hwloc_get_obj_by_depth) object = nullptr;
  decltype(&hwloc_bitmap_first) first = nullptr;

  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }

  bool open() {
    void* library = ::dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    return library != nullptr && find(library, "hwloc_topology_init", init) &&
           find(library, "hwloc_topology_load", load) && find(library, "hwloc_topology_destroy", destroy) &&
           find(library, "hwloc_topology_is_thissystem", is_thissystem) &&
           find(library, "hwloc_get_type_depth", type_depth) && find(library, "hwloc_get_nbobjs_by_depth", count) &&
           find(library, "hwloc_get_obj_by_depth", object) && find(library, "hwloc_bitmap_first", first);
  }
};

bool is_data_cache(hwloc_obj_type_t type) { return type >= HWLOC_OBJ_L1CACHE && type <= HWLOC_OBJ_L5CACHE; }

CpuFacts facts_of(const Hwloc& hwloc, hwloc_obj_t pu) {
  CpuFacts facts;
  facts.cpu = facts.core = static_cast<int>(pu->os_index);
  facts.node = std::max(0, hwloc.first(pu->nodeset));
  for (hwloc_obj_t up = pu->parent; up != nullptr; up = up->parent) {
    if (up->type == HWLOC_OBJ_CORE) facts.core = hwloc.first(up->cpuset);
    if (is_data_cache(up->type)) facts.cache = hwloc.first(up->cpuset);  // the last one found is the largest
    if (up->type == HWLOC_OBJ_PACKAGE) facts.package = static_cast<int>(up->os_index);
  }
  return facts;
}

}  // namespace

Result<std::vector<CpuFacts>> read_topology() {
  Hwloc hwloc;
  if (!hwloc.open()) return no_hwloc("libhwloc.so.15 is not here");
  hwloc_topology_t topology = nullptr;
  if (hwloc.init(&topology) != 0) return no_hwloc("its set-up failed");
  if (hwloc.load(topology) != 0) {
    hwloc.destroy(topology);
    return no_hwloc("it cannot read this machine");
  }
  const bool here = hwloc.is_thissystem(topology) == 1;
  std::vector<CpuFacts> cpus;
  const int depth = hwloc.type_depth(topology, HWLOC_OBJ_PU);
  for (unsigned i = 0; i < hwloc.count(topology, depth); ++i)
    cpus.push_back(facts_of(hwloc, hwloc.object(topology, depth, i)));
  hwloc.destroy(topology);
  if (!here)
    return Error{ErrorKind::usage,
                 "--numa-binding: HWLOC_XMLFILE or HWLOC_SYNTHETIC describes another machine; unset "
                 "it, or set HWLOC_THISSYSTEM=1 if it is this one"};
  return cpus;
}

Result<std::vector<CpuFacts>> read_usable_topology() {
  auto cpus = read_topology();
  if (!cpus) return cpus;
  const launcher::CpuSet allowed = launcher::allowed_cpus();
  std::erase_if(*cpus,
                [&](const CpuFacts& facts) { return !std::binary_search(allowed.begin(), allowed.end(), facts.cpu); });
  return cpus;
}

int numa_node_of_pci(const std::string& bus_id) {
  const std::string text = launcher::read_small_file("/sys/bus/pci/devices/" + bus_id + "/numa_node");
  int node = 0;
  std::from_chars(text.data(), text.data() + text.size(), node);
  return std::max(0, node);
}

}  // namespace dtrain::cli
