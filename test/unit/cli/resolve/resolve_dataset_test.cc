// A node that does not have the job's data set.
#include "cli/resolve/resolve.h"
#include "cli/resolve/resolve_parts.h"
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

std::string build_seen(FileFacts whole, FileFacts build, bool writes = false) {
  const auto seen = judge_build_folder("/c/k.tmp.j", writes, [=](const std::string& path) {
    return path == "/c" ? whole : path == "/c/k.tmp.j" ? build : FileFacts{};
  });
  return seen ? "fine" : seen.error().message;
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

TEST_CASE("a node that does not see where the data set is built says why") {
  const FileFacts missing, there = folder();
  FileFacts closed = folder();
  closed.readable = closed.executable = false;
  FileFacts fixed = folder();
  fixed.writable = false;
  const std::string cure = "; choose a backend.cache_dir that all nodes have";
  CHECK(build_seen(there, there) == "fine");
  CHECK(build_seen(missing, missing) == "backend.cache_dir: /c is not there on this node" + cure);
  CHECK(build_seen(there, missing) ==
        "backend.cache_dir: /c on this node is another folder than on the node that builds the data set" + cure);
  CHECK(build_seen(closed, missing) == "backend.cache_dir: /c cannot be read on this node" + cure);
  CHECK(build_seen(there, closed) == "backend.cache_dir: /c cannot be read on this node" + cure);
  CHECK(build_seen(there, fixed) == "fine");
  CHECK(build_seen(there, fixed, true) ==
        "backend.cache_dir: /c cannot be written on this node, whose workers write there; choose a folder that "
        "all nodes may write in");
}

TEST_CASE("a node whose workers build asks whether it may write") {
  const auto verdict = [](bool chosen, bool writable) {
    Host host = test_host();
    host.env["DTRAIN_DATA_BUILD"] = "/c/k.tmp.j";
    if (chosen) host.place = launcher::AgentPlace{};
    FileFacts facts = folder();
    facts.writable = writable;
    host.probe = [=, before = host.probe](const std::string& asked) {
      return asked.starts_with("/c") ? facts : before(asked);
    };
    const std::vector<std::string> words = {"true"};
    const auto plan = resolve(*parse(words), host);
    return plan ? "fine" : plan.error().message;
  };
  CHECK(verdict(true, true) == "fine");
  CHECK_THAT(verdict(true, false), Contains("cannot be written on this node"));
  CHECK(verdict(false, false) == "fine");
}
