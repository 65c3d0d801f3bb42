#include "data/process/progress.h"

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("progress: a line says what is done in which pass, and is empty at the end") {
  CHECK(progress_text({0, 2, "gathering", 1, 2}) == "gathering (pass 1 of 2): 50 % ");
  CHECK(progress_text({1, 2, "transforming", 0, 3}) == "transforming (pass 2 of 2): 0 % ");
  CHECK(progress_text({2, 2, "writing", 2, 3}) == "writing: 66 % ");
  CHECK(progress_text({2, 2, "writing", 3, 3}).empty());
  CHECK(progress_text({0, 1, "writing", 0, 0}).empty());
}
