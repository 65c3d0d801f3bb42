// Whether a place is this host's, by made-up interfaces.
#include "cli/machine/own_address.h"

#include "test/support/catch.h"

using namespace dtrain::cli;

namespace {
const std::vector<InterfaceAddress> kHost = {
    {"lo", "127.0.0.1"}, {"lo", "::1"}, {"eth0", "10.0.0.1"}, {"eth0", "fd00::1"}, {"ib0", "192.168.7.1"}};
}

TEST_CASE("an address of an interface is this host's, and is listened at") {
  const auto place = judge_meeting_address({"10.9.9.9", "192.168.7.1"}, kHost);
  CHECK(place.own == "192.168.7.1");
  CHECK(place.interface == "ib0");
  CHECK(place.addresses.size() == 2);
  CHECK(judge_meeting_address({"fd00::1"}, kHost).own == "fd00::1");
}

TEST_CASE("another's address is not") {
  const auto place = judge_meeting_address({"10.0.0.2", "fd00::2"}, kHost);
  CHECK(place.own.empty());
  CHECK(place.of_this_host.size() == 3);
}

TEST_CASE("a name that means a loopback address here is this host's, which then listens everywhere") {
  const auto several = judge_meeting_address({"127.0.1.1"}, kHost);
  CHECK(several.own == "::");
  CHECK(several.interface.empty());  // there are two
  CHECK(judge_meeting_address({"127.0.1.1"}, {{"lo", "127.0.0.1"}, {"eth0", "10.0.0.1"}}).interface == "eth0");
  CHECK(judge_meeting_address({"127.0.1.1", "10.0.0.1"}, kHost).own == "10.0.0.1");
}

TEST_CASE("loopback names") {
  for (const char* name : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) CHECK(is_loopback_name(name));
  for (const char* name : {"host1", "10.0.0.1", "fd00::1", "localhost.example.com", ""})
    CHECK_FALSE(is_loopback_name(name));
}
