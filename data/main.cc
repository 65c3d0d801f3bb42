// dtrain-data: what needs Arrow, and runs without torch. `dtrain` starts it; its own command line is for developers.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/cache/cache_error.h"
#include "data/commands/data_command.h"
#include "data/process/process.h"
#include "data/process/process_command.h"
#include "dtrain/data_errors.h"

namespace {

using Words = std::span<const std::string_view>;
using dtrain::data::RowsOfSplits;

// Errors of the library begin with its name; the cache has other lines too.
std::string without_name(std::string text) {
  constexpr std::string_view kName = "dtrain: ";
  return text.starts_with(kName) ? text.substr(kName.size()) : text;
}

RowsOfSplits fill_by_recipe(const nlohmann::json& recipe, const std::filesystem::path& folder) {
  using dtrain::data::CacheError;
  try {
    RowsOfSplits rows;
    for (const auto& part : dtrain::data::process(dtrain::data::parse_recipe(recipe), folder, {}).parts)
      rows[part.name] = static_cast<std::uint64_t>(part.rows);
    return rows;
  } catch (const dtrain::data::RecipeError& error) {
    throw CacheError(dtrain::data::kUsageCode, without_name(error.what()));
  } catch (const dtrain::DataError& error) {
    throw CacheError(dtrain::data::kDamagedCode, without_name(error.what()));
  }
}

struct Command {
  std::string_view name;
  int (*run)(Words words);  // what follows the name. Returns the exit code
};

constexpr Command kCommands[] = {
    {"preprocess", [](Words) { return dtrain::data::preprocess_command(fill_by_recipe); }},
    {"cache", [](Words) { return dtrain::data::cache_command(); }},
    {"process", dtrain::data::run_process},
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  for (const Command& command : kCommands)
    if (!words.empty() && command.name == words.front()) return command.run(std::span(words).subspan(1));
  fmt::print(stderr, "dtrain-data: {}: no such command\n", words.empty() ? "" : words.front());
  return 2;
}
