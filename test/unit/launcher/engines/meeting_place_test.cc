// Where the nodes of a job meet.
#include "launcher/engines/meeting_place.h"

#include "test/support/catch.h"

using namespace dtrain::launcher;

TEST_CASE("a job has a port, and seldom that of another job") {
  CHECK(port_of_job("a") == port_of_job("a"));
  CHECK(port_of_job("a") != port_of_job("b"));
  for (const char* id : {"", "job-1", "job-2"}) CHECK((port_of_job(id) >= 20000 && port_of_job(id) < 29000));
}

TEST_CASE("another node does not meet at an address that it has too") {
  const std::vector<std::string> first{"10.0.0.1", "172.17.0.1", "fd00::1"};
  CHECK(endpoint_of_node_0(first, "9") == "10.0.0.1:9,172.17.0.1:9,[fd00::1]:9");
  CHECK(endpoint_seen_from({"10.0.0.2", "172.17.0.1"}, first, "9") == "10.0.0.1:9,[fd00::1]:9");
  CHECK(endpoint_seen_from(first, first, "9").empty());
}
