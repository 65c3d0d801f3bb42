// Whether this node has the data set of the job.
// Tested by test/unit/cli/resolve/resolve_dataset_test.cc.
#include <fmt/format.h>

#include <string>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/resolve/resolve_parts.h"

namespace dtrain::cli {

namespace {

constexpr const char* kDataBuild = "DTRAIN_DATA_BUILD";  // of a job that dtrain-data starts (data/script/script_job.h)

}  // namespace

Result<void> judge_build_folder(const std::string& folder, bool writes, const Probe& probe) {
  const std::string cache = folder.substr(0, folder.rfind('/'));
  const auto refused = [&](const char* why, const char* cure) {
    return usage_error(fmt::format("backend.cache_dir: {} {}; {}", printable(cache, 400), why, cure));
  };
  constexpr const char* kForAll = "choose a backend.cache_dir that all nodes have";
  const FileFacts build = probe(folder), whole = probe(cache);
  const bool is_there = build.kind != FileFacts::Kind::missing, is_open = whole.readable && whole.executable;
  if (whole.kind == FileFacts::Kind::missing) return refused("is not there on this node", kForAll);
  if (!is_there && is_open)
    return refused("on this node is another folder than on the node that builds the data set", kForAll);
  if (!is_open || !build.readable || !build.executable) return refused("cannot be read on this node", kForAll);
  if (writes && !build.writable)
    return refused("cannot be written on this node, whose workers write there",
                   "choose a folder that all nodes may write in");
  return {};
}

Result<void> resolve_dataset(const Given& given, Plan& /*plan*/) {
  if (const std::string build = given.host.variable(kDataBuild); given.host.place && !build.empty())
    if (auto done = judge_build_folder(build, true, given.host.probe); !done) return done;
  const std::string path = given.host.variable("DTRAIN_DATASET");
  // What the config names is built or found after all else is known to be right.
  // On a node that an engine has not chosen, the variable may be of another place, as a container.
  if (given.raw.data || !given.host.place || !path.starts_with('/')) return {};
  const FileFacts facts = given.host.probe(path);
  if (facts.kind != FileFacts::Kind::missing && facts.readable) return {};
  return usage_error(fmt::format("DTRAIN_DATASET: {} {} on this node; choose a backend.cache_dir that all nodes have",
                                 printable(path, 400),
                                 facts.kind == FileFacts::Kind::missing ? "is not there" : "cannot be read"));
}

}  // namespace dtrain::cli
