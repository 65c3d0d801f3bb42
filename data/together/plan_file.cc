// Tested by test/process/data/nodes_test.py.
#include "data/together/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "data/os/host_name.h"
#include "data/shared/shared_files.h"
#include "data/source/input_files.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr int kPlanFormat = 2;

// The files of the input here: path, size and time of change.
nlohmann::json files_here(const Recipe& recipe) {
  nlohmann::json all = nlohmann::json::array();
  for (const DataFile& file : input_files(recipe.input, recipe.format).files)
    all.push_back({file.path, file.bytes, file.mtime_ns});
  return all;
}

// JSON is text in UTF-8.
void check_name(const std::string& path) {
  try {
    static_cast<void>(nlohmann::json(path).dump());
  } catch (const nlohmann::json::exception&) {
    throw DataError(
        fmt::format("dtrain: dataset.input: the name {} is no text in UTF-8, and several processes need "
                    "one; rename the file, or let one process do the work: num_workers: 1",
                    nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
}

}  // namespace

std::string own_version() { return DTRAIN_VERSION; }

nlohmann::json plan_of(const Recipe& recipe, std::int64_t memory) {
  nlohmann::json text = recipe.text, files = files_here(recipe);
  text["input"] = recipe.input;
  for (const std::string& word : recipe.input) check_name(word);
  for (const nlohmann::json& file : files) check_name(file.front().get_ref<const std::string&>());
  return {{"format", kPlanFormat},
          {"version", DTRAIN_VERSION},
          {"recipe", std::move(text)},
          {"files", std::move(files)},
          {"memory_limit_bytes", memory}};
}

bool is_plan(const nlohmann::json& plan) {
  return plan.is_object() && plan.value("format", 0) == kPlanFormat && plan.value("version", "") == own_version();
}

void check_files(const Recipe& recipe, const nlohmann::json& wanted) {
  nlohmann::json found;
  try {
    found = files_here(recipe);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{} (on the node {}); {}", error.what(), host_name(""), kSameInput));
  }
  if (found == wanted) return;
  for (std::size_t i = 0; i < std::min(found.size(), wanted.size()); ++i)
    if (found[i] != wanted[i])
      throw DataError(
          fmt::format("dtrain: dataset.input: on the node {} {} has another size or time of change than on "
                      "the node that began; {}",
                      host_name(""), found[i].front().get<std::string>(), kSameInput));
  throw DataError(fmt::format("dtrain: dataset.input: the node {} sees {} files, and the node that began {}; {}",
                              host_name(""), found.size(), wanted.size(), kSameInput));
}

std::optional<nlohmann::json> plan_left(const Recipe& recipe, const fs::path& work) {
  if (is_there((work / "failed").string())) return std::nullopt;
  const auto text = read_shared((work / "plan.json").string());
  if (!text) return std::nullopt;
  const nlohmann::json left = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!left.is_object() || !left.contains("memory_limit_bytes")) return std::nullopt;
  // A limit that nobody has named is what was free then.
  const auto memory = recipe.memory_limit_bytes.value_or(left["memory_limit_bytes"].get<std::int64_t>());
  nlohmann::json wanted = plan_of(recipe, memory);
  wanted["digest"] = left.value("digest", std::uint64_t{0});
  return wanted == left ? std::optional(left) : std::nullopt;
}

}  // namespace dtrain::data
