// dtrain-data: what needs Arrow, and runs without torch. `dtrain` starts it; its own command line is for developers.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "data/process/process_command.h"

namespace {

struct Command {
  std::string_view name;
  int (*run)(std::span<const std::string_view> words);  // what follows the name. Returns the exit code
};

constexpr std::array<Command, 1> kCommands = {{{"process", dtrain::data::run_process}}};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  for (const Command& command : kCommands)
    if (!words.empty() && command.name == words.front()) return command.run(std::span(words).subspan(1));
  fmt::print(stderr, "dtrain-data: {}: no such command\n", words.empty() ? "" : words.front());
  return 2;
}
