// What is told of a training's progress, and how often.
#include <limits>

#include "strategies/session/progress_text.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

TEST_CASE("progress is a line of JSON") {
  CHECK(progress_text({.step = 7}) == "{\"step\":7}\n");
  CHECK(progress_text({.step = 7, .steps = 10, .seconds_left = 1.5, .metrics = {{"loss", 0.5}, {"a\"b", 2}}}) ==
        "{\"step\":7,\"steps\":10,\"seconds_left\":1.5,\"metrics\":{\"loss\":0.5,\"a\\\"b\":2.0}}\n");
  CHECK(progress_text({.step = 1, .metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()}}}) ==
        "{\"step\":1,\"metrics\":{\"loss\":null}}\n");
}

TEST_CASE("progress is written twice a second at most, and at the last step") {
  ProgressPace pace;
  ProgressPace::Time now{1000s};
  CHECK(pace.due({.step = 1, .steps = 9}, now));
  CHECK_FALSE(pace.due({.step = 2, .steps = 9}, now + 499ms));
  CHECK(pace.due({.step = 3, .steps = 9}, now + 500ms));
  CHECK_FALSE(pace.due({.step = 4}, now + 999ms));
  CHECK(pace.due({.step = 9, .steps = 9}, now + 999ms));
}
