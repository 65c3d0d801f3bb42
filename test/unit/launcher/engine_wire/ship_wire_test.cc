// The list of a job's files, and the pieces of them, as somebody else may send them.
#include "launcher/engine_wire/ship_wire.h"

#include <nlohmann/json.hpp>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;

namespace {

const std::string kDigest(64, 'a');

ShipFile file_at(const std::string& path, std::uint64_t size = 1) { return {path, size, kDigest, false}; }

std::string refusal(const std::vector<ShipFile>& files) {
  const auto done = check_ship_files(files);
  return done ? "" : done.error().message;
}

}  // namespace

TEST_CASE("a path of a shipped file stays below its folder") {
  for (const char* path : {"a", "a/b", "a/b/c.py", "...", "a..b", " ", "-x", "a\nb"}) CHECK(is_ship_path(path));
  for (const char* path : {"", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/..", "a/../b", "a/./b", "a/.."})
    CHECK_FALSE(is_ship_path(path));
  CHECK_FALSE(is_ship_path(std::string_view("a\0b", 3)));
  CHECK(is_ship_path(std::string(255, 'x')));
  CHECK_FALSE(is_ship_path(std::string(256, 'x')));
  std::string deep = "x";
  while (deep.size() <= kLongestShipPath) deep += "/x";
  CHECK_FALSE(is_ship_path(deep));
}

TEST_CASE("a list of shipped files makes sense or is refused") {
  CHECK(refusal({}).empty());
  CHECK(refusal({file_at("a"), file_at("b/a"), file_at("b/c")}).empty());
  CHECK_THAT(refusal({file_at("../a")}), Contains("no path below a folder"));
  CHECK_THAT(refusal({file_at("a"), file_at("a")}), Contains("a is there twice"));
  CHECK_THAT(refusal({file_at("a"), file_at("a/b")}), Contains("a is a file and a folder"));
  CHECK_THAT(refusal({file_at("a/b/c"), file_at("a/b")}), Contains("a/b is a file and a folder"));
  for (const std::string& digest : {std::string(), std::string(63, 'a'), std::string(64, 'A'), std::string(64, 'g')})
    CHECK_THAT(refusal({{"a", 1, digest, false}}), Contains("a has no SHA-256"));
  CHECK_THAT(refusal({file_at("a", kMostShipBytes), file_at("b")}), Contains("more than 1024 GiB"));
  CHECK_THAT(refusal({file_at("a", ~std::uint64_t{}), file_at("b", ~std::uint64_t{})}), Contains("1024 GiB"));
  std::vector<ShipFile> many;
  for (std::size_t i = 0; i <= kMostShipFiles; ++i) many.push_back(file_at(std::to_string(i)));
  CHECK_THAT(refusal(many), Contains("at most 8192 can be shipped"));
  std::vector<ShipFile> wordy;
  for (int i = 0; i < 1100; ++i) {
    std::string path = std::to_string(i);
    while (path.size() < 1000) path += "/" + std::string(100, 'x');
    wordy.push_back(file_at(path));
  }
  CHECK_THAT(refusal(wordy), Contains("more than 1024 KiB"));
}

TEST_CASE("shipped files come through as they are") {
  const std::vector<ShipFile> files{{"a b/é", 0, kDigest, true}, file_at("c", 123456789012)};
  CHECK(*parse_ship_files(ship_json(files)) == files);
  CHECK(parse_ship_files(nlohmann::json::array())->empty());
  for (const char* text : {"null", "{}", "[1]", "[{}]", R"([{"path":"a","size":-1,"sha256":"","executable":true}])",
                           R"([{"path":"a","size":1.5,"sha256":"","executable":true}])",
                           R"([{"path":"a","size":"1","sha256":"","executable":true}])",
                           R"([{"path":"a","size":1,"sha256":"","executable":1}])"})
    CHECK_FALSE(parse_ship_files(nlohmann::json::parse(text)).ok());
  auto outside = ship_json({file_at("a")});
  outside[0]["path"] = "../.ssh/authorized_keys";
  CHECK_FALSE(parse_ship_files(outside).ok());
}

TEST_CASE("an agent can ask only for what is on the list") {
  const std::vector<ShipFile> files{file_at("a", 3 * kShipPieceBytes - 1), file_at("b", 0)};
  for (const std::uint64_t from : {0UL, kShipPieceBytes + 0UL, 2 * kShipPieceBytes + 0UL}) {
    const ShipPiece piece = ship_piece(files, 0, from);
    const auto ask = parse_ship_ask(ship_ask_line(piece), files);
    REQUIRE(ask.ok());
    CHECK(*ask == piece);
    CHECK(*parse_ship_piece(ship_piece_line(piece)) == piece);
  }
  CHECK(ship_piece(files, 0, 2 * kShipPieceBytes).size == kShipPieceBytes - 1);
  CHECK_FALSE(*parse_ship_ask("dtrain-agent {\"ready\":true}", files));
  CHECK_FALSE(*parse_ship_ask("hello", files));
  for (const char* line : {R"({"wants":2,"from":0})", R"({"wants":-1,"from":0})", R"({"wants":0})",
                           R"({"wants":1,"from":0})", R"({"wants":0,"from":99999999})", R"({"wants":"0","from":0})",
                           R"({"wants":18446744073709551615,"from":0})", R"({"wants":0,"from":-1})"})
    CHECK_FALSE(parse_ship_ask(std::string("dtrain-agent ") + line, files).ok());
}

TEST_CASE("what is no piece of a file is refused") {
  for (const char* line : {"", "go", "[]", "{}", R"({"file":0,"from":0})", R"({"file":-1,"from":0,"size":1})",
                           R"({"file":8192,"from":0,"size":1})", R"({"file":0,"from":0,"size":65537})",
                           R"({"file":0,"from":99999999999999,"size":1})", R"({"file":0,"from":0.5,"size":1})"})
    CHECK_FALSE(parse_ship_piece(line).ok());
}
