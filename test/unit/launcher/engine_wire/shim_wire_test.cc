// What a submitter, an engine's shim and a relay say to each other.
#include "launcher/engine_wire/shim_wire.h"

#include <nlohmann/json.hpp>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;

TEST_CASE("an order for a relay comes through as it is") {
  const RelayOrder order{{"10.0.0.1", "fd00::1"}, 4321, "submit", "dtrain-secret", 7};
  const std::string line = relay_order_line(order);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(*parse_relay_order(line) == order);
}

TEST_CASE("an order that makes no sense shows no secret") {
  for (const char* line :
       {"", "[]", "{}", R"({"addresses":[],"port":1,"agent":0,"secret":"s3"})",
        R"({"addresses":["a"],"port":0,"agent":0,"secret":"s3"})", R"({"addresses":["a"],"port":65536,"agent":0})",
        R"({"addresses":["a"],"port":1,"agent":-1})", R"({"addresses":"a","port":1,"agent":1})"}) {
    const auto order = parse_relay_order(line);
    REQUIRE_FALSE(order.ok());
    CHECK(order.error().kind == ErrorKind::usage);
    CHECK(order.error().message.find("s3") == std::string::npos);
  }
}

TEST_CASE("a request is an object with what the shim needs") {
  const ShimRequest request{
      2, 4, true, "gpu", {{"CPU", 2}, {"GPU", 1}}, "--master x", "/opt/dtrain", {{"10.0.0.1"}, 1, "j", "s", 0}, "8"};
  const auto json = nlohmann::json::parse(shim_request_line(request));
  CHECK(json["least"] == 2);
  CHECK(json["most"] == 4);
  CHECK(json["grows"] == true);
  CHECK(json["workers"] == "gpu");
  CHECK(json["all"] == "8");
  CHECK(json["resources"]["GPU"] == 1);
  CHECK(json["options"] == "--master x");
  CHECK(json["program"] == "/opt/dtrain");
  CHECK(parse_relay_order(json["order"].dump()).ok());
}

TEST_CASE("a shim says where the nodes are, which is lost, or why there are none") {
  const auto placed = parse_shim_word(R"({"placed":[{"host":"a","workers":2},{"host":"b","workers":1}]})");
  REQUIRE(placed.ok());
  CHECK(std::get<ShimPlaced>(*placed).nodes == std::vector<ShimNode>{{"a", 2}, {"b", 1}});
  CHECK_FALSE(std::get<ShimPlaced>(*placed).named_by_cards);
  const auto unknown = parse_shim_word(R"({"placed":[{"host":"task 0","workers":2}],"named_by_cards":true})");
  REQUIRE(unknown.ok());
  CHECK(std::get<ShimPlaced>(*unknown).named_by_cards);
  CHECK_FALSE(std::get<ShimPlaced>(*unknown).begins_late);
  const auto late = parse_shim_word(R"({"placed":[{"host":"task 0","workers":2}],"begins_late":true})");
  REQUIRE(late.ok());
  CHECK(std::get<ShimPlaced>(*late).begins_late);
  const auto lost = parse_shim_word(R"({"lost":2,"why":"gone"})");
  REQUIRE(lost.ok());
  CHECK(std::get<ShimLost>(*lost).agent == 2);
  CHECK(std::get<ShimLost>(*lost).why == "gone");
  const auto joined = parse_shim_word(R"({"joined":4,"host":"c","workers":3})");
  REQUIRE(joined.ok());
  CHECK(std::get<ShimJoined>(*joined).agent == 4);
  CHECK(std::get<ShimJoined>(*joined).node == ShimNode{"c", 3});
  CHECK(vacant_line(4) == R"({"vacant":4})");
  const auto error = parse_shim_word(R"({"error":"no room","kind":"unavailable"})");
  REQUIRE(error.ok());
  CHECK(std::get<Error>(*error).kind == ErrorKind::unavailable);
  CHECK(std::get<Error>(*error).message == "no room");
  CHECK(std::get<Error>(*parse_shim_word(R"({"error":"x","kind":"nonsense"})")).kind == ErrorKind::system);
}

TEST_CASE("what no shim says is an error that shows it") {
  for (const char* line :
       {"", "hello", "{}", "[1]", R"({"placed":[]})", R"({"placed":[{"host":"","workers":1}]})",
        R"({"placed":[{"host":"a","workers":0}]})", R"({"placed":[{"host":"a"}]})", R"({"placed":["a"]})",
        R"({"placed":{"host":"a"}})", R"({"joined":1})", R"({"joined":-1,"host":"c","workers":3})",
        R"({"joined":1,"host":"c","workers":0})", R"({"lost":-1})", R"({"lost":"1"})"})
    CHECK_THAT(parse_shim_word(line).error().message, Contains("nothing that an engine's shim says"));
}
