// Which changes make another entry of the cache.
#include "data/cache/cache_key.h"

#include "data/cache/sha256.h"
#include "test/support/catch.h"

using namespace dtrain::data;
using nlohmann::json;

namespace {

const std::vector<CacheInput> kTwoFiles = {{"/in/a.csv", 10, 100, ""}, {"/in/b.csv", 20, 200, ""}};

std::string key_of(const char* recipe, const std::vector<CacheInput>& inputs = kTwoFiles) {
  return cache_key(json::parse(recipe), inputs);
}

}  // namespace

TEST_CASE("SHA-256 is that of FIPS 180") {
  CHECK(sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("a key does not depend on the order of keys, on nulls and on how the work is done") {
  const std::string key = key_of(R"({"seed": 1, "split": {"train": 1, "by": null}})");
  CHECK(is_cache_key(key));
  CHECK(key == key_of(R"({"split": {"train": 1}, "seed": 1})"));
  CHECK(key == key_of(R"({"split": {"train": 1}, "seed": 1, "shuffle": null, "threads": 4, "persist": false,
                          "memory_limit_bytes": 9, "parallelism": 3, "input": ["elsewhere"], "inputs_by": "mtime"})"));
  // Steps are done in their order, and a null in one may be a value.
  CHECK(key_of(R"({"steps": [{"a": 1}, {"b": 1}]})") != key_of(R"({"steps": [{"b": 1}, {"a": 1}]})"));
  CHECK(key != key_of(R"({"split": {"train": 1}, "seed": 2})"));
}

TEST_CASE("a key depends on each input's path, size, time and place in the order") {
  const std::string key = key_of("{}");
  std::vector<CacheInput> other = kTwoFiles;
  std::swap(other[0], other[1]);
  CHECK(key_of("{}", other) != key);
  other = kTwoFiles;
  other[1].size = 21;
  CHECK(key_of("{}", other) != key);
  other = kTwoFiles;
  other[1].mtime_ns = 201;
  CHECK(key_of("{}", other) != key);
  other = kTwoFiles;
  other[1].path = "/in/c.csv";
  CHECK(key_of("{}", other) != key);
  other.pop_back();
  CHECK(key_of("{}", other) != key);
}

TEST_CASE("by content, a copy elsewhere has the same key") {
  CHECK(key_of("{}", {{"/a", 3, 1, "ff"}}) == key_of("{}", {{"/b", 3, 2, "ff"}}));
  CHECK(key_of("{}", {{"/a", 3, 1, "ff"}}) != key_of("{}", {{"/a", 3, 1, "fe"}}));
}

TEST_CASE("a name that is no key is none") {
  CHECK_FALSE(is_cache_key(std::string(63, 'a')));
  CHECK_FALSE(is_cache_key(std::string(64, 'g')));
  CHECK_FALSE(is_cache_key("../" + std::string(61, 'a')));
}
