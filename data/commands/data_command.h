#pragma once
// The commands of dtrain-data that `dtrain` starts. What is asked comes as JSON on standard input, and was checked by
// dtrain as far as it can be without reading data; so nothing of it is in anybody's `ps`.
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "data/entry/build_entry.h"

namespace dtrain::data {

// Does what the recipe says, into an empty folder: FOLDER/SPLIT/part-*.parquet. `dataset.input` of the recipe is a list
// of files. Throws what is one line for the user, which begins with the key that is wrong: "dataset.steps[0].cast:
// ...".
using FillFolder = std::function<RowsOfSplits(const nlohmann::json& recipe, const std::filesystem::path& folder)>;

// {"dataset": {...}, "file": "job.yaml", "lines": {"dataset.input": 3}, "cache_dir": "", "threads": 2, "wait_s": 3600,
//  "json": false}
int preprocess_command(const FillFolder& fill);

// {"do": "ls", "cache_dir": "", "keys": ["..."], "json": false, "ttl_s": 60, "max_bytes": 1000}
int cache_command();

}  // namespace dtrain::data
