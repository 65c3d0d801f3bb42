// SLURM's short form of a list of hosts.
#include "launcher/engines/hostlist.h"

#include "test/support/catch.h"

using dtrain::launcher::expand_hostlist;

namespace {

// The names with blanks between them, or the error.
std::string hosts(std::string_view text, std::size_t most = 100) {
  auto names = expand_hostlist(text, most);
  if (!names) return names.error().message;
  std::string all;
  for (const std::string& name : *names) all += (all.empty() ? "" : " ") + name;
  return all;
}

}  // namespace

TEST_CASE("a list of hosts has names, ranges and combinations in SLURM's order") {
  CHECK(hosts("login") == "login");
  CHECK(hosts("node7,login-2.site.org") == "node7 login-2.site.org");
  CHECK(hosts("node[1-3]") == "node1 node2 node3");
  CHECK(hosts("node[01-04,7],gpu-[1-2]x[3-4]") == "node01 node02 node03 node04 node7 gpu-1x3 gpu-1x4 gpu-2x3 gpu-2x4");
  CHECK(hosts("[1-2]") == "1 2");
  CHECK(hosts("n[5]a,m") == "n5a m");
  CHECK(hosts("b,a,b") == "b a b");
}

TEST_CASE("leading zeros are kept, and a range may outgrow them") {
  CHECK(hosts("n[08-11]") == "n08 n09 n10 n11");
  CHECK(hosts("n[8-11]") == "n8 n9 n10 n11");
  CHECK(hosts("n[098-101]") == "n098 n099 n100 n101");
  CHECK(hosts("n[0]") == "n0");
  CHECK(hosts("n[00,000]") == "n00 n000");
}

TEST_CASE("what is no list of hosts is an error that says why") {
  const std::string head = "not a list of hosts: ";
  for (const char* text : {"", ",", "a,", ",a", "a,,b"}) CHECK(hosts(text) == head + "a name is empty");
  for (const char* text : {"n[]", "n[-3]", "n[1-]", "n[a-c]", "n[1,]", "n[", "n[ 1]", "n[[1]]"})
    CHECK(hosts(text) == head + "a range needs numbers, as in [1-4,7]");
  for (const char* text : {"n[1", "n[1-2", "n[1x]", "n[1-2-3]"})
    CHECK(hosts(text) == head + "']' is missing, or there is more than numbers before it");
  for (const char* text : {"a b", "a]", "n[1]]", "a\n", "a\x7f", "\xff"})
    CHECK(hosts(text) == head + "a blank, a control character or a lone ']' in a name");
  CHECK(hosts("n[3-1]") == head + "the range 3-1 runs backwards");
  CHECK(hosts("n[1-9999999999999999999]") == head + "a number is too long");
  CHECK(hosts(std::string(256, 'a')) == head + "a name of more than 255 bytes");
}

TEST_CASE("a list of hosts is bounded however it is written") {
  CHECK(expand_hostlist("n[1-100]", 100)->size() == 100);
  CHECK(expand_hostlist("n[1-65536]")->size() == 65536);
  const std::string full = "not a list of hosts: more than 100 names";
  CHECK(hosts("n[1-101]") == full);
  CHECK(hosts("n[1-50,51-101]") == full);
  CHECK(hosts("n[1-50],m[1-51]") == full);
  CHECK(hosts("n[1-10]x[1-11]") == full);
  CHECK(hosts("n[0-999999999999999999]") == full);
  CHECK(hosts("n[1-9]x[1-9]x[1-9]x[1-9]x[1-9]x[1-9]x[1-9]x[1-9]x[1-9]") == full);
}
