#pragma once
// The commands of dtrain-data that `dtrain` starts. What is asked comes as JSON on standard input, and was checked by
// dtrain as far as it can be without reading data; so nothing of it is in anybody's `ps`.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/entry/build_entry.h"
#include "data/objects/object_store.h"

namespace dtrain::data {

// Who does what a recipe says. Both throw what is one line for the user, which begins with the key that is wrong, if
// one is: "dataset.steps[0].cast: no such column".
struct Processor {
  // The files that `input` of a recipe means, in the order in which they are read.
  std::function<std::vector<std::string>(const nlohmann::json& recipe)> files;
  // Into an empty folder: FOLDER/SPLIT/part-*.parquet, of `files`: those, or what a script has made of them.
  std::function<RowsOfSplits(const nlohmann::json& recipe, const std::vector<std::string>& files,
                             const std::filesystem::path& folder, bool quiet)>
      fill;
  // As `fill`, by several processes (data/together/together.h): `start` runs them. `on_a_host`: of these. The folder
  // may have what a killed build of the same key has left.
  std::function<RowsOfSplits(
      const nlohmann::json& recipe, const std::vector<std::string>& files, const std::filesystem::path& folder,
      bool quiet, std::size_t on_a_host,
      const std::function<void(const std::filesystem::path& folder, const std::function<bool()>& must_end)>& start)>
      fill_together = {};
  // As `files`, with size and time of change, where `input` names a store. It may start threads, and runs in a child.
  std::function<std::vector<CacheInput>(const nlohmann::json& recipe)> files_and_objects = {};
};

// Opens the object store of a cache: "s3://BUCKET/PREFIX". `credentials` are those of the request, if it has some.
using OpenObjects =
    std::function<std::unique_ptr<ObjectStore>(const std::string& uri, const nlohmann::json& credentials)>;

// {"dataset": {...}, "file": "job.yaml", "lines": {"dataset.input": 3}, "cache_dir": "", "threads": 2, "wait_s": 3600,
//  "json": false, "quiet": false, "dtrain": "/usr/bin/dtrain", "engine": "ray", "nodes": ["--hosts=a,b", "--nproc=1"],
//  "credentials": {"AWS_ACCESS_KEY_ID": "..."}}
// With "asks_nodes": true standard output is a socket. Before an entry is built in a folder, {"asks": FOLDER} is a line
// on it, and {"asks": FOLDER, "code": 0} the answer: the nodes of the job see this folder. With another code there is
// no build, and this program ends with that code, without a word. With "processor" in `dataset`, its "script" goes
// first (data/script/script_job.h). Else, with "nodes" or "num_workers" in `dataset`, processes share the work
// (data/script/worker_job.h). With "fill": {"folder": "", "key":
// ""} it fills this empty folder, and asks no cache.
int preprocess_command(const Processor& processor, const OpenObjects& open = {});

// What a recipe.json makes of raw rows.
struct ApplyRequest {
  nlohmann::json recipe;    // discarded: the file is no JSON
  std::string recipe_file;  // for people
  bool filter = false;
  std::vector<std::string> without{}, keep{};
  std::optional<std::int64_t> parallelism{}, memory_limit_bytes{};
  std::vector<std::string> input{};
  bool quiet = false;
};
// Into an empty folder: FOLDER/rows/part-*.parquet. Returns the number of rows. Throws as Processor's do.
using ApplyFill = std::function<std::uint64_t(const ApplyRequest& asked, const std::filesystem::path& folder)>;

// {"recipe": "recipe.json", "input": ["new.csv"], "filter": false, "without": [], "keep": [], "cache_dir": "",
//  "json": false, "quiet": false, "parallelism": null, "memory_limit_bytes": null}
int apply_command(const Processor& processor, const ApplyFill& fill, const OpenObjects& open = {});

// {"do": "ls", "cache_dir": "", "keys": ["..."], "json": false, "ttl_s": 60, "max_bytes": 1000,
//  "credentials": {...}}
int cache_command(const OpenObjects& open = {});

}  // namespace dtrain::data
