// What malloc keeps, and when it is left alone.
#include "strategies/comm/backend/kept_memory.h"

#include <sys/resource.h>

#include <array>
#include <cstring>
#include <memory>

#include "test/support/catch.h"
#include "test/support/malloc.h"
#include "test/unit/strategies/ranks.h"
#include "test/unit/strategies/variables.h"

using namespace dtrain;
using namespace dtrain::test;

namespace {

// Pages that the kernel brings for blocks like a step's gradients, the second time that a program has them.
long pages_of_second_step() {
  constexpr std::size_t kBlock = std::size_t{4} << 20;
  const auto step = [] {
    std::array<std::unique_ptr<char[]>, 12> blocks;
    for (auto& block : blocks) {
      block.reset(new char[kBlock]);
      std::memset(block.get(), 1, kBlock);
    }
  };
  const auto pages = [] {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
  };
  step();
  const long before = pages();
  step();
  return pages() - before;
}

}  // namespace

TEST_CASE("memory is kept unless its user says otherwise") {
  const auto keeps = [](const Variables& variables) { return keeps_memory(lookup_in(variables)); };
  CHECK(keeps({}));
  CHECK(keeps({{"MALLOC_TRIM_THRESHOLD_", ""}, {"MALLOC_ARENA_MAX", "2"}, {"GLIBC_TUNABLES", "glibc.malloc.check=3"}}));
  for (const char* name : {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"})
    CHECK_FALSE(keeps({{name, "131072"}}));
  CHECK_FALSE(keeps({{"GLIBC_TUNABLES", "glibc.malloc.check=3:glibc.malloc.mmap_threshold=1048576"}}));
  CHECK_FALSE(keeps({{"DTRAIN_KEEP_MEMORY", "0"}}));
  CHECK(keeps({{"DTRAIN_KEEP_MEMORY", "1"}, {"MALLOC_TOP_PAD_", "131072"}}));
  CHECK_THROWS_WITH(keeps({{"DTRAIN_KEEP_MEMORY", "yes"}}),
                    "dtrain: DTRAIN_KEEP_MEMORY is 'yes'; it must be 1 (what a step frees is kept; default) or 0");
}

TEST_CASE("what a step has freed the next one gets without the kernel") {
  if (kOtherMalloc) return;
  const auto outcomes = run_ranks(2, [](int rank) {
    if (rank == 1) keep_freed_memory();
    return std::to_string(pages_of_second_step());
  });
  require_all_returned(outcomes);
  const long as_it_is = std::stol(outcomes[0].said), kept = std::stol(outcomes[1].said);
  CAPTURE(as_it_is, kept);
  // Without it this test would say nothing; a page may be a large one.
  CHECK(as_it_is >= 12);
  CHECK(kept * 4 < as_it_is);
}
