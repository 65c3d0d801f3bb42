// Jobs whose nodes choose their host, each with its own faults: see succession_world.h, and seeds.h for how many.
#include "test/sim/histories_test.h"
#include "test/sim/succession_world.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

// The longest of the simulators: under AddressSanitizer a thousand histories would take minutes.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kUsual = 100;
#else
constexpr std::uint64_t kUsual = 1000;
#endif

}  // namespace

TEST_CASE("simulated jobs have one host at a time, and one again after it is lost") {
  const auto seeds = sim::seeds(kUsual);
  std::uint64_t followed = 0, survived = 0;
  sim::require_histories<sim::SuccessionWorld>(seeds, [&](const sim::SuccessionWorld& world) {
    followed += std::uint64_t(world.followed());
    survived += world.survived() ? 1 : 0;
  });
  if (seeds.count < 100) return;
  CHECK(followed > seeds.count / 2);
  CHECK(survived > seeds.count / 2);
}

TEST_CASE("the same seed gives the same job with the same hosts") { sim::require_same_again<sim::SuccessionWorld>(10); }
