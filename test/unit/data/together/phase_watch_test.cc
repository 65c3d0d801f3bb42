#include "data/together/phase_watch.h"

#include <map>
#include <optional>
#include <string>

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("progress: of processes that share the work, the last phase that has begun counts") {
  PhaseWatch watch({{"pass-0", 0, "gathering", 4}, {"compare-1", 0, "comparing", 2}, {"write", 2, "writing", 8}}, 2);
  std::map<std::string, std::size_t> there;
  int asked = 0;
  const auto look = [&] {
    const auto now = watch.look([&](const std::string& phase) {
      ++asked;
      return there.contains(phase) ? std::optional(there[phase]) : std::nullopt;
    });
    return now ? progress_text(*now) : "none";
  };
  CHECK(look() == "none");
  there["pass-0"] = 1;
  CHECK(look() == "gathering (pass 1 of 2): 25 % ");
  there["pass-0"] = 4;
  CHECK(look().empty());
  there["compare-1"] = 1;
  CHECK(look() == "comparing (pass 1 of 2): 50 % ");
  there["write"] = 2;
  CHECK(look() == "writing: 25 % ");
  asked = 0;
  there["write"] = 6;
  CHECK(look() == "writing: 75 % ");
  CHECK(asked == 1);
  there["write"] = 9;  // of a phase with other files, too, no more than there is
  CHECK(look().empty());
}
