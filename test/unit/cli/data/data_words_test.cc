// The words after `dtrain preprocess` and `dtrain cache`, and what becomes of an answer.
#include "cli/data/data_words.h"

#include <nlohmann/json.hpp>

#include "cli/data/dataset_found.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;
using Asked = nlohmann::json;
using DataWords = std::vector<std::string>;

namespace {

std::string why_no_cache(const DataWords& words) {
  const auto asked = parse_cache(words);
  return asked ? "fine" : asked.error().message;
}

std::string why_no_preprocess(const DataWords& words) {
  const auto asked = parse_preprocess(words);
  return asked ? "fine" : asked.error().message;
}

Asked cache_request(const DataWords& words) {
  const auto asked = parse_cache(words);
  INFO((asked ? "" : asked.error().message));
  REQUIRE(asked.ok());
  return Asked::parse(whole_request(*asked, std::nullopt));
}

}  // namespace

TEST_CASE("a request has the config's words, and those of flags above them") {
  const auto asked = parse_preprocess({"--config=job.yaml", "--threads", "3", "--cache-dir", "/flag", "--wait=9"});
  REQUIRE(asked.ok());
  CHECK(asked->config == "job.yaml");
  const std::string text = whole_request(*asked, R"({"cache_dir":"/file","dataset":{"input":["a"]}})");
  CHECK(Asked::parse(text) == Asked::parse(R"({"cache_dir": "/flag", "dataset": {"input": ["a"]}, "json": false,
                                             "threads": 3, "wait_s": 9})"));
  CHECK(has_dataset(text));
  CHECK_FALSE(has_dataset("{}"));
}

TEST_CASE("the commands of a cache") {
  CHECK(cache_request({"ls", "--json", "--cache-dir=/c"}) ==
        Asked::parse(R"({"do": "ls", "keys": [], "json": true, "cache_dir": "/c"})"));
  CHECK(cache_request({"--ttl", "30d", "gc", "--max-size=100GB"}) ==
        Asked::parse(R"({"do": "gc", "keys": [], "json": false, "ttl_s": 2592000, "max_bytes": 100000000000})"));
  CHECK(cache_request({"rm", "aaaa", "bbbb"})["keys"] == Asked({"aaaa", "bbbb"}));
}

TEST_CASE("words that are wrong are refused by name") {
  CHECK_THAT(why_no_cache({}), Contains("say what to do: dtrain cache ls"));
  CHECK_THAT(why_no_cache({"lss"}), Contains("did you mean ls?"));
  CHECK_THAT(why_no_cache({"rm"}), Contains("name the entries"));
  CHECK_THAT(why_no_cache({"rm", ""}), Contains("too short for a key"));
  CHECK_THAT(why_no_cache({"ls", "--cache-dir=abfs://b/c"}), Contains("no cache in abfs://"));
  CHECK_THAT(why_no_cache({"ls", "--cache-dir=c\xff"}), Contains("the name is not UTF-8; name another folder"));
  CHECK_THAT(why_no_cache({"ls", "aaaa"}), Contains("takes no keys (aaaa)"));
  CHECK_THAT(why_no_cache({"ls", "--ttl=1d"}), Contains("dtrain cache ls has no --ttl"));
  CHECK_THAT(why_no_cache({"gc", "--ttl=1"}), Contains("--ttl: expected an age such as 30d"));
  CHECK_THAT(why_no_cache({"gc", "--max-size=1XB"}), Contains("--max-size: expected a size"));
  CHECK_THAT(why_no_cache({"gc", "--tll=1d"}), Contains("did you mean --ttl?"));
  CHECK_THAT(why_no_preprocess({"--threads=0"}), Contains("--threads '0'"));
  CHECK_THAT(why_no_preprocess({"job.yaml"}), Contains("nothing else (job.yaml)"));
}

TEST_CASE("an age is a number and its unit") {
  CHECK(parse_age("45s")->count() == 45);
  CHECK(parse_age("90m")->count() == 5400);
  CHECK(parse_age("12h")->count() == 43200);
  CHECK(parse_age("0d")->count() == 0);
  for (const char* wrong : {"", "d", "1", "1w", "-1d", "1.5h"}) CHECK_FALSE(parse_age(wrong));
}

TEST_CASE("a request for raw rows has the config's cache and what the processor may take") {
  const RawInput input{"r.json", true, {"label"}, {"id"}, 3};
  const auto request = nlohmann::json::parse(
      rows_request(input, "/d/r.json", "new.csv", R"({"cache_dir": "/c", "limits": {"parallelism": 3}})", true));
  CHECK(request == nlohmann::json::parse(R"({"recipe": "/d/r.json", "input": ["new.csv"], "filter": true,
      "without": ["label"], "keep": ["id"], "cache_dir": "/c", "parallelism": 3, "json": true, "quiet": true})"));
  CHECK_FALSE(nlohmann::json::parse(rows_request(input, "/d/r.json", "new.csv", "", false)).contains("cache_dir"));
}

TEST_CASE("each split of a data set has its variable") {
  const auto found =
      parse_dataset_found(R"({"folder":"/c/k","built":true,"rows":{"train":9,"validation":1,"hold-out 2":3}})");
  REQUIRE(found.ok());
  CHECK(found->variables == std::map<std::string, std::string>{{"DTRAIN_DATASET", "/c/k/train"},
                                                               {"DTRAIN_DATASET_VALIDATION", "/c/k/validation"},
                                                               {"DTRAIN_DATASET_HOLD_OUT_2", "/c/k/hold-out 2"}});
  CHECK(found->rows == 13);
  CHECK(found->line == "data set built (hold-out 2 3, train 9, validation 1 rows): /c/k");
  CHECK_FALSE(parse_dataset_found("").ok());
  CHECK_FALSE(parse_dataset_found("{}").ok());
}

TEST_CASE("a job with other nodes says so in its request") {
  const auto request = nlohmann::json::parse(with_nodes(dataset_request(true)));
  CHECK(request == nlohmann::json::parse(R"({"json": true, "quiet": true, "asks_nodes": true})"));
}
