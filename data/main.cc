// dtrain-data: what needs Arrow, and runs without torch. `dtrain` starts it; its own command line is for developers.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/cache/cache_error.h"
#include "data/commands/data_command.h"

namespace {

using Words = std::span<const std::string_view>;
using dtrain::data::RowsOfSplits;

// The place of data/recipe, data/source and data/process, which are not merged here.
[[noreturn]] void refuse_processor() {
  throw dtrain::data::CacheError(dtrain::data::kSystemCode, "this build of dtrain-data has no processor");
}
std::vector<std::string> files_of_recipe(const nlohmann::json& /*recipe*/) { refuse_processor(); }
RowsOfSplits fill_by_recipe(const nlohmann::json& /*recipe*/, const std::filesystem::path& /*folder*/) {
  refuse_processor();
}

struct Command {
  std::string_view name;
  int (*run)(Words words);  // what follows the name. Returns the exit code
};

constexpr Command kCommands[] = {
    {"preprocess",
     [](Words) {
       return dtrain::data::preprocess_command({files_of_recipe, fill_by_recipe});
     }},
    {"cache", [](Words) { return dtrain::data::cache_command(); }},
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  for (const Command& command : kCommands)
    if (!words.empty() && command.name == words.front()) return command.run(std::span(words).subspan(1));
  fmt::print(stderr, "dtrain-data: {}: no such command\n", words.empty() ? "" : words.front());
  return 2;
}
