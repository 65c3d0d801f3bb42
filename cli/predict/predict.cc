#include "cli/predict/predict.h"

#include <fmt/format.h>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/terminal.h"
#include "cli/base/usage_error.h"
#include "cli/help/help.h"
#include "cli/run/run.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {

Result<std::vector<std::string>> predict_as_run(const std::vector<std::string>& words) {
  const auto raw = parse(words);
  if (!raw) return raw.error();
  for (const FlagId id : {FlagId::module, FlagId::no_python, FlagId::run_path})
    if (const auto& value = (*raw)[id])
      return usage_error(fmt::format("{} has no place here: the program of dtrain predict is a Python script",
                                     printable(value->where)));
  for (const FlagId id : {FlagId::ship, FlagId::ship_files})
    if (const auto& value = (*raw)[id])
      return usage_error(fmt::format("{} has no place here: all nodes of dtrain predict see SCRIPT, INPUT and OUTPUT",
                                     printable(value->where)));
  constexpr const char* kWords[] = {"SCRIPT", "INPUT", "OUTPUT"};
  if (raw->command.size() < std::size(kWords))
    return usage_error(
        fmt::format("{} is missing: dtrain predict [flags] SCRIPT INPUT OUTPUT", kWords[raw->command.size()]));
  std::vector<std::string> as_run{"--module"};
  as_run.insert(as_run.end(), words.begin(), words.end() - static_cast<std::ptrdiff_t>(raw->command.size()));
  as_run.insert(as_run.end(), {"dtrain_data", "predict"});
  as_run.insert(as_run.end(), raw->command.begin(), raw->command.end());
  return as_run;
}

int predict_command(const std::vector<std::string>& words) {
  if (const auto raw = parse(words); raw && (*raw)[FlagId::help]) return print_help(help_on("predict", output_width()));
  const auto as_run = predict_as_run(words);
  return as_run ? run_command(*as_run, CalledAs::dtrain) : fail(as_run.error());
}

}  // namespace dtrain::cli
