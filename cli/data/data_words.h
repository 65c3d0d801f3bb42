#pragma once
// The words after `dtrain preprocess` and `dtrain cache`, as a request to dtrain-data. Pure.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct DataAsked {
  std::string config{};     // --config; empty: not said
  std::string cache_dir{};  // --cache-dir; empty: not said
  std::string request{};    // the rest, as JSON (data/commands/data_command.h)
};
// The engine of the job that wants the data set, where more is known of it than the config says.
void take_engine(const std::string& engine, DataAsked& asked);
Result<DataAsked> parse_preprocess(const std::vector<std::string>& words);
Result<DataAsked> parse_cache(const std::vector<std::string>& words);

// The request to dtrain-data. `said`: what the config says of the data, if there is one.
std::string whole_request(const DataAsked& asked, const std::optional<std::string>& said);
// Whether it names a data set.
bool has_dataset(const std::string& request);

// "45s", "90m", "12h", "30d"
Result<std::chrono::seconds> parse_age(const std::string& text);

}  // namespace dtrain::cli
