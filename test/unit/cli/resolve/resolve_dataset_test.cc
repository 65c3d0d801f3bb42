// A node that does not have the job's data set.
#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

namespace {

std::string with_data_set(const std::string& path, const FileFacts& facts, bool from_config = false,
                          bool chosen = true) {
  Host host = test_host();
  host.env["DTRAIN_DATASET"] = path;
  if (chosen) host.place = launcher::AgentPlace{};
  host.probe = [=, before = host.probe](const std::string& asked) { return asked == path ? facts : before(asked); };
  const std::vector<std::string> words = {"true"};
  auto raw = parse(words);
  REQUIRE(raw.ok());
  if (from_config) raw->data = "{}";
  const auto plan = resolve(*raw, host);
  return plan ? "fine" : plan.error().message;
}

}  // namespace

TEST_CASE("a node without the data set starts no worker") {
  const FileFacts missing, there = folder();
  FileFacts closed = folder();
  closed.readable = false;
  CHECK(with_data_set("/c/k/train", there) == "fine");
  CHECK(with_data_set("/c/k/train", missing) ==
        "DTRAIN_DATASET: /c/k/train is not there on this node; choose a backend.cache_dir that all nodes have");
  CHECK_THAT(with_data_set("/c/k/train", closed), Contains("cannot be read on this node"));
  CHECK(with_data_set("s3://bucket/train", missing) == "fine");
  // Nobody but the user has set the variable.
  CHECK(with_data_set("/c/k/train", missing, false, false) == "fine");
  // The config names another one, which comes later.
  CHECK(with_data_set("/c/k/train", missing, true) == "fine");
}
