#include "cli/predict/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/terminal.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/help/help.h"
#include "cli/options/options.h"
#include "cli/parse/command_words.h"
#include "cli/program/program.h"
#include "cli/run/run.h"
#include "cli/table/command_table.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

using PredictFlags = std::map<std::string, std::string>;

bool is_at_flags(const std::vector<std::string>& words, std::size_t count) {
  const auto before =
      parse(std::vector<std::string>(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count)));
  return before && !before->ended && before->command.empty();
}

// Takes the flags out that are predict's own, and stand among those of `dtrain run`.
Result<PredictFlags> take_own_flags(std::vector<std::string>& words) {
  const Command& command = *find_command("predict");
  std::vector<std::string> own;
  for (std::size_t i = 0; i < words.size();) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const auto row = std::find_if(command.flags.begin(), command.flags.end(),
                                  [&](const CommandFlag& flag) { return name == fmt::format("--{}", flag.name); });
    if (row == command.flags.end() || !is_at_flags(words, i)) {
      ++i;
      continue;
    }
    const bool has_next = !row->value.empty() && name == words[i] && i + 1 < words.size();
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(i), end = begin + (has_next ? 2 : 1);
    own.insert(own.end(), begin, end);
    words.erase(begin, end);
  }
  return command_words(CommandId::predict, own, Unknown::repeated);
}

Result<std::optional<RawInput>> raw_input_of(const PredictFlags& flags, std::size_t place) {
  if (!flags.contains("recipe")) {
    for (const char* name : {"filter", "without", "keep"})
      if (flags.contains(name))
        return usage_error(
            fmt::format("--{} is about the rows that a recipe makes: name the recipe with --recipe", name));
    return std::optional<RawInput>();
  }
  RawInput input;
  input.recipe = flags.at("recipe");
  input.filter = flags.contains("filter");
  for (const auto& [name, columns] : {std::pair("without", &input.without), std::pair("keep", &input.keep)}) {
    if (!flags.contains(name)) continue;
    *columns = split(flags.at(name), ',');
    std::set<std::string> seen;
    for (const std::string& column : *columns)
      if (column.empty() || !seen.insert(column).second)
        return usage_error(fmt::format("--{} '{}': expected names of columns, each once, with commas between them",
                                       name, printable(flags.at(name))));
  }
  input.place = place;
  return std::optional(std::move(input));
}

// What would have Python run the program, or not, in another way than predict's.
Result<void> check_flags(const RawOptions& raw, bool is_python, const Host& host) {
  const Options options(raw, host);
  for (const FlagId id : {FlagId::module, FlagId::run_path, FlagId::no_python}) {
    const auto is_on = options.on(id);
    if (!is_on) return is_on.error();
    const bool typed = raw[id].has_value(), fits = id == FlagId::no_python && !is_python;
    if ((typed || *is_on) && !fits)
      return usage_error(fmt::format("{} has no place here: dtrain predict sees itself whether Python is to run SCRIPT",
                                     printable(options[id].where)));
  }
  for (const FlagId id : {FlagId::ship, FlagId::ship_files})
    if (const auto& value = raw[id])
      return usage_error(fmt::format("{} has no place here: all nodes of dtrain predict see SCRIPT, INPUT and OUTPUT",
                                     printable(value->where)));
  return {};
}

}  // namespace

Result<PredictRun> predict_as_run(const std::vector<std::string>& words, const Host& host) {
  std::vector<std::string> flags_and_command = words;
  const auto own = take_own_flags(flags_and_command);
  if (!own) return own.error();
  const auto raw = parse(flags_and_command);
  if (!raw) return raw.error();
  constexpr const char* kWords[] = {"SCRIPT", "INPUT", "OUTPUT"};
  const std::vector<std::string>& command = raw->command;
  const auto program = command.empty() ? Result<Program>(Program{}) : build_program({command}, host);
  // What is not here may be on the nodes.
  const bool is_python = !program || program->is_python || command.empty();
  if (auto done = check_flags(*raw, is_python, host); !done) return done.error();
  if (command.size() < std::size(kWords))
    return usage_error(
        fmt::format("{} is missing: dtrain predict [flags] SCRIPT INPUT OUTPUT", kWords[command.size()]));
  PredictRun run;
  const std::size_t place = is_python ? 3 : 1;
  auto raw_input = raw_input_of(*own, place);
  if (!raw_input) return raw_input.error();
  run.raw_input = std::move(*raw_input);
  if (!is_python) {
    run.words = std::move(flags_and_command);
    return run;
  }
  const auto tail = flags_and_command.end() - static_cast<std::ptrdiff_t>(command.size());
  run.words = {"--module"};
  run.words.insert(run.words.end(), flags_and_command.begin(), tail);
  run.words.insert(run.words.end(), {"dtrain_data", "predict"});
  run.words.insert(run.words.end(), command.begin(), command.end());
  return run;
}

int predict_command(const std::vector<std::string>& words) {
  if (const auto raw = parse(words); raw && (*raw)[FlagId::help]) return print_help(help_on("predict", output_width()));
  auto as_run = predict_as_run(words, this_host());
  return as_run ? run_command(as_run->words, CalledAs::dtrain, std::move(as_run->raw_input)) : fail(as_run.error());
}

}  // namespace dtrain::cli
