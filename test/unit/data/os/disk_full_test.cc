#include "data/os/disk_full.h"

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("disk full: a disk and a quota that are full are told from other errors") {
  CHECK(says_disk_full("dtrain: /cache: rows that wait cannot be written: No space left on device"));
  CHECK(says_disk_full("dtrain: /cache/part-0: Disk quota exceeded"));
  CHECK_FALSE(says_disk_full("dtrain: /cache: Permission denied"));
  CHECK_FALSE(says_disk_full(""));
}
