#include "launcher/base/host_name.h"

#include "test/support/catch.h"

namespace dtrain::launcher {

// Python's socket.getfqdn() was asked for each of these, in a mount namespace of its own with this /etc/hosts.
TEST_CASE("the name with its domain is found in /etc/hosts as Python finds it") {
  const char* hosts =
      "# machines\n127.0.0.1 localhost\n\n10.0.0.7\tn7.cluster.example n7 login # the first\n"
      "10.0.0.8 n8 eight\n10.0.0.9 n9 nine.example\n127.0.0.1 vm\n10.0.0.7 second.example late";
  CHECK(qualified_name(hosts, "n7") == "n7.cluster.example");
  CHECK(qualified_name(hosts, "n7.cluster.example") == "n7.cluster.example");
  CHECK(qualified_name(hosts, "eight") == "n8");
  CHECK(qualified_name(hosts, "nine.example") == "nine.example");
  CHECK(qualified_name(hosts, "n9") == "nine.example");
  CHECK(qualified_name(hosts, "vm") == "localhost");
  CHECK(qualified_name(hosts, "late") == "n7.cluster.example");
}

TEST_CASE("a name that /etc/hosts has not stays as it is") {
  CHECK(qualified_name("", "n7") == "n7");
  CHECK(qualified_name("10.0.0.7\n#10.0.0.8 n7\nn7 other\n", "n7") == "n7");
  CHECK(qualified_name("10.0.0.7 n70 n\n", "n7.example") == "n7.example");
}

}  // namespace dtrain::launcher
