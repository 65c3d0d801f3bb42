#pragma once
// The words after `dtrain preprocess` and `dtrain cache`, as a request to dtrain-data. Pure.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/parse/parse.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct DataAsked {
  std::string config{};     // --config; empty: not said
  std::string cache_dir{};  // --cache-dir; empty: not said
  std::string request{};    // the rest, as JSON (data/commands/data_command.h)
};
// For a job that makes the data set: `dtrain`, the file of this program; the engine of the job that wants the data set,
// where more is known of it than the config says (empty: not so); and the flags for its nodes (data_nodes.h).
void take_launcher(const std::string& dtrain, const std::string& engine, const std::vector<std::string>& nodes,
                   DataAsked& asked);
Result<DataAsked> parse_preprocess(const std::vector<std::string>& words);
Result<DataAsked> parse_cache(const std::vector<std::string>& words);

// The request to dtrain-data. `said`: what the config says of the data, if there is one. `credentials`: of the store of
// the cache, as JSON.
std::string whole_request(const DataAsked& asked, const std::optional<std::string>& said,
                          const std::string& credentials = {});
// The request for a job's data set, but for what the config says.
std::string dataset_request(bool quiet);
// The request for the rows that the recipe in a file makes of `files`. `said`: as above, or empty.
std::string rows_request(const RawInput& input, const std::string& recipe, const std::string& files,
                         const std::string& said, bool quiet);

// The request of a job whose nodes can be asked (AskNodes).
std::string with_nodes(const std::string& request);

// Whether it names a data set.
bool has_dataset(const std::string& request);

// "45s", "90m", "12h", "30d"
Result<std::chrono::seconds> parse_age(const std::string& text);

}  // namespace dtrain::cli
