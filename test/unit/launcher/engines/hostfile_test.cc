// Files and lists of hosts, as users of other launchers have them.
#include "launcher/engines/hostfile.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;
using Hosts = std::vector<PlacedHost>;

namespace {

Hosts read(const std::string& text) {
  auto hosts = parse_hostfile(text);
  INFO((hosts ? "" : hosts.error().message));
  REQUIRE(hosts.ok());
  return *hosts;
}

std::string why(const Result<Hosts>& hosts) { return hosts ? "fine" : hosts.error().message; }

const Hosts kTwo{{"a", 4}, {"b", 2}};

}  // namespace

TEST_CASE("a hostfile has a line for each host, or for each slot") {
  CHECK(read("node1 slots=8\nnode2 slots=4\n") == Hosts{{"node1", 8}, {"node2", 4}});
  CHECK(read("# ours\n\n  node1:8   # with eight\r\nnode2\n") == Hosts{{"node1", 8}, {"node2", 0}});
  CHECK(read("a\na\nb\na") == Hosts{{"a", 3}, {"b", 0}});
  CHECK(read("a slots=2\na slots=3") == Hosts{{"a", 5}});
  CHECK(read("\xEF\xBB\xBFnode[1-2]:8\nb[3,4] slots=2 max_slots=4\nme@c:1") ==
        Hosts{{"node1", 8}, {"node2", 8}, {"b3", 2}, {"b4", 2}, {"me@c", 1}});
  CHECK(read("[fd00::1]:2\nfd00::2 slots=3\nfd00::3\n10.0.0.1:4") ==
        Hosts{{"fd00::1", 2}, {"fd00::2", 3}, {"fd00::3", 0}, {"10.0.0.1", 4}});
}

TEST_CASE("a line that makes no sense is named") {
  CHECK(why(parse_hostfile("a\nb slots=x")) == "line 2: 'x' is no number of slots");
  CHECK(why(parse_hostfile("a slots=0")) == "line 1: '0' is no number of slots");
  CHECK(why(parse_hostfile("a:")) == "line 1: '' is no number of slots");
  CHECK_THAT(why(parse_hostfile("a cpus=2")), Contains("line 1: 'cpus=2' is not known; a line is NAME,"));
  CHECK_THAT(why(parse_hostfile("a slots=2 b")), Contains("'b' is not known"));
  for (const char* line : {"[worker]", "a,b slots=2", "a:8:9", "n[1-", "a[1]b]"})
    CHECK_FALSE(parse_hostfile(line).ok());
  CHECK_THAT(why(parse_hostfile("\n-oProxyCommand=x")), Contains("line 2: '-oProxyCommand=x' is no name of a host"));
  CHECK_THAT(why(parse_hostfile("a;reboot")), Contains("is no name of a host"));
  CHECK(why(parse_hostfile("# none\n")) == "it names no host");
}

TEST_CASE("a list of hosts has slots and ranges") {
  CHECK(*parse_hosts("a:4,b:2") == kTwo);
  CHECK(*parse_hosts("a,b") == Hosts{{"a", 0}, {"b", 0}});
  CHECK(*parse_hosts("n[1-2,4]:8,login") == Hosts{{"n1", 8}, {"n2", 8}, {"n4", 8}, {"login", 0}});
  CHECK(*parse_hosts("[fd00::1]:2,10.0.0.1") == Hosts{{"fd00::1", 2}, {"10.0.0.1", 0}});
  CHECK(*parse_hosts("me@[fd00::1]:2,me@[fd00::2],me@n[1-2]:3") ==
        Hosts{{"me@fd00::1", 2}, {"me@fd00::2", 0}, {"me@n1", 3}, {"me@n2", 3}});
  for (const char* name : {"a", "me@a", "fd00::1", "me@fd00::1", "10.0.0.1"})
    CHECK(*parse_hosts(name_in_list(name) + ":2") == Hosts{{name, 2}});
  for (const char* text : {"", "a,", ",a", "a:0", "a:x", "n[1-", "-a", "a b"}) CHECK_FALSE(parse_hosts(text).ok());
}

TEST_CASE("a choice of hosts and slots is DeepSpeed's") {
  CHECK(*include_hosts(kTwo, "b") == Hosts{{"b", 2}});
  CHECK(*include_hosts(kTwo, "a:0,2@b") == Hosts{{"a", 4, {0, 2}}, {"b", 2}});
  CHECK(*include_hosts(kTwo, "b@a") == kTwo);
  CHECK(*include_hosts(kTwo, "a:0@a:1") == Hosts{{"a", 4, {0, 1}}});
  CHECK(*exclude_hosts(kTwo, "a") == Hosts{{"b", 2}});
  CHECK(*exclude_hosts(kTwo, "a:1@b:0") == Hosts{{"a", 4, {0, 2, 3}}, {"b", 2, {1}}});
  const Hosts odd{{"me@a", 2}, {"fd00::1", 2}, {"c", 0}};
  CHECK(*include_hosts(odd, "me@a:1@[fd00::1]:0") == Hosts{{"me@a", 2, {1}}, {"fd00::1", 2, {0}}});
  CHECK(*exclude_hosts(odd, "me@a@fd00::1") == Hosts{{"c", 0}});
  const Hosts users{{"me@fd00::1", 2}, {"me@fd00::2", 0}};
  CHECK(*include_hosts(users, "me@[fd00::1]:1@me@[fd00::2]") == Hosts{{"me@fd00::1", 2, {1}}, {"me@fd00::2", 0}});
  CHECK(why(exclude_hosts(odd, "c:0")) == "how many slots c has is not said: c:SLOTS");
  CHECK(why(include_hosts(kTwo, "c")) == "c is none of the hosts");
  CHECK(why(include_hosts(kTwo, "a:4")) == "a has slots 0 to 3, and not 4");
  CHECK(why(exclude_hosts(kTwo, "a@b")) == "no host is left");
  CHECK_THAT(why(include_hosts(kTwo, "a:")), Contains("'a:' is no choice of hosts; it is NAME@NAME:SLOT,SLOT"));
  CHECK(why(include_hosts(kTwo, "a:x")) == "'x' is no slot of a");
}
