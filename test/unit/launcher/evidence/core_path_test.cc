#include "launcher/evidence/core_path.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("core patterns are expanded as the kernel does, unknown codes become a star") {
  DeadProcess process{77, 11, "a_program_with_a_long_name", "/home/user", "node4"};
  CHECK(expand_core_pattern("core\n", false, process) == "/home/user/core");
  CHECK(expand_core_pattern("core\n", true, process) == "/home/user/core.77");
  CHECK(expand_core_pattern("core.%p", true, process) == "/home/user/core.77");
  CHECK(expand_core_pattern("/var/crash/%e-%s-%h-%t", false, process) == "/var/crash/a_program_with_-11-node4-*");
  CHECK(expand_core_pattern("/x/%%p%", false, process) == "/x/%p");
  CHECK(expand_core_pattern("", true, process) == "");
  CHECK(expand_core_pattern("|/usr/share/apport/apport %p %s", false, process) == "handed to /usr/share/apport/apport");
  CHECK(expand_core_pattern("|/lib/systemd/systemd-coredump %P %u", false, process) ==
        "handed to /lib/systemd/systemd-coredump, see: coredumpctl info 77");
  CHECK(expand_core_pattern("|", false, process) == "handed to ");
}

}  // namespace dtrain::launcher
