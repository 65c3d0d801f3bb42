#include "data/together/plan_file.h"

#include <arrow/config.h>
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

constexpr int kPlanFormat = 3;

// The files of the input here: path, size and time of change.
nlohmann::json files_here(const Recipe& recipe) {
  nlohmann::json all = nlohmann::json::array();
  for (const DataFile& file : input_files(recipe.input, recipe.format).files)
    all.push_back({file.path, file.bytes, file.mtime_ns});
  return all;
}

bool has_integer(const nlohmann::json& plan, const char* key) {
  return plan.contains(key) && plan[key].is_number_integer();
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

std::string own_version() {
  return fmt::format("{} with Arrow {}", DTRAIN_VERSION, arrow::GetBuildInfo().version_string);
}

std::optional<nlohmann::json> read_plan(const fs::path& work) {
  const auto text = read_shared(plan_path(work).string());
  if (!text) return std::nullopt;
  return nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
}

nlohmann::json plan_of(const Recipe& recipe, std::int64_t memory, std::size_t on_a_host) {
  nlohmann::json text = recipe.text, files = files_here(recipe);
  text["input"] = recipe.input;
  for (const std::string& word : recipe.input) check_name(word);
  for (const nlohmann::json& file : files) check_name(file.front().get_ref<const std::string&>());
  return {{"format", kPlanFormat},     {"version", own_version()},     {"recipe", std::move(text)},
          {"files", std::move(files)}, {"memory_limit_bytes", memory}, {"on_a_host", on_a_host}};
}

bool is_plan_of_some_version(const nlohmann::json& plan) {
  return plan.is_object() && has_integer(plan, "format") && has_integer(plan, "digest") && plan.contains("version") &&
         plan["version"].is_string();
}

bool is_plan(const nlohmann::json& plan) {
  return is_plan_of_some_version(plan) && plan["format"] == kPlanFormat && plan["version"] == own_version() &&
         has_integer(plan, "memory_limit_bytes") && has_integer(plan, "on_a_host");
}

std::string what_is_other(const nlohmann::json& plan, const fs::path& path) {
  const bool is_named = plan.is_object() && plan.contains("version") && plan["version"].is_string();
  if (!plan.is_object() || (is_named && plan["version"] == own_version()))
    return fmt::format(
        "{} is damaged, or another build of dtrain {} has made it (the node {} has read it); start again, "
        "with the same dtrain on all nodes",
        path.string(), own_version(), host_name(""));
  return fmt::format("{} is of {}, and the node {} has dtrain {}; all nodes need the same versions", path.string(),
                     is_named ? "dtrain " + plan["version"].get<std::string>() : "another version of dtrain",
                     host_name(""), own_version());
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

std::optional<nlohmann::json> plan_left(const Recipe& recipe, const fs::path& work, std::size_t on_a_host) {
  if (is_there((work / "failed").string())) return std::nullopt;
  auto found = read_plan(work);
  if (!found || !is_plan(*found)) return std::nullopt;
  nlohmann::json& left = *found;
  // A limit that nobody has named is what was free then, for so many processes.
  const auto on_a_host_then = left["on_a_host"].get<std::size_t>();
  if (!recipe.memory_limit_bytes && on_a_host > on_a_host_then) return std::nullopt;
  const auto memory = recipe.memory_limit_bytes.value_or(left["memory_limit_bytes"].get<std::int64_t>());
  nlohmann::json wanted = plan_of(recipe, memory, on_a_host_then);
  wanted["digest"] = left["digest"];
  return wanted == left ? found : std::nullopt;
}

}  // namespace dtrain::data
