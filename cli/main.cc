// dtrain: table of contents. Every command is one function; the words are judged elsewhere (parse.h, resolve.h).
// The job is started from a process that is still small and has one thread: start none here.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/terminal.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/base/version.h"
#include "cli/ckpt/ckpt.h"
#include "cli/commands/install_torchrun.h"
#include "cli/commands/serve.h"
#include "cli/commands/shim.h"
#include "cli/commands/status.h"
#include "cli/commands/token.h"
#include "cli/data/data_commands.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/env_report.h"
#include "cli/estimate/estimate.h"
#include "cli/flight/flight.h"
#include "cli/help/completion.h"
#include "cli/help/help.h"
#include "cli/help/man.h"
#include "cli/logs/logs.h"
#include "cli/parse/command_words.h"
#include "cli/predict/predict.h"
#include "cli/run/agent.h"
#include "cli/run/run.h"
#include "cli/table/command_table.h"
#include "launcher/base/inherited.h"
#include "launcher/base/last_words.h"
#include "launcher/job/exit_codes.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;

int help(const Words& words) {
  if (words.empty()) return print_help(short_help(output_width()));
  if (words[0] == "--markdown") return print(markdown_help());
  if (words[0] == "--man") return print(man_page());
  return print_help(help_on(words[0], output_width()));
}

int env(const Words& words) {
  auto flags = command_words(CommandId::env, words, Unknown::repeated);
  if (!flags) return fail(flags.error());
  return print(flags->contains("json") ? env_json(env_facts()) : env_text(env_facts()));
}

int agent(const Words& words) {
  const auto flags = command_words(CommandId::agent, words);
  if (!flags) return fail(flags.error());
  if (const auto folder = flags->find("look"); folder != flags->end()) return look_command(folder->second);
  return flags->contains("relay") ? relay_command() : agent_command();
}

int install_torchrun(const Words& words) {
  if (!words.empty() && words[0].starts_with('-'))
    return fail(unknown_flag(*find_command("install-torchrun"), words[0]));
  return install_torchrun_command(words);
}

int shim(const Words& words) {
  if (!words.empty() && words[0].starts_with('-') && words[0] != "--")
    return fail(unknown_flag(*find_command("shim"), words[0]));
  return shim_command(words);
}

int no_command() {
  std::fputs(short_help(output_width(STDERR_FILENO)).c_str(), stderr);
  return launcher::kExitUsage;
}

// What was typed after `dtrain`, as it could be typed after `dtrain run`.
std::string as_run(const Words& words) {
  std::string line = "dtrain run";
  for (const std::string& word : words) line += " " + shell_quoted(printable(word));
  return line;
}

int unknown_command(const Words& words) {
  const std::string& word = words[0];
  std::vector<std::string> names;
  for (const Command& row : commands()) names.emplace_back(row.name);
  if (word == "-V" || word == "-v")
    return fail(usage_error(fmt::format("unknown flag {}; did you mean --version?", word)));
  const bool is_flag = word.starts_with('-');
  const std::string near = is_flag ? "" : closest(word, names);
  const std::string hint =
      near.empty() ? "to start a program: " + as_run(words) : fmt::format("did you mean dtrain {}?", near);
  return fail(usage_error(fmt::format("unknown {} {}; {}", is_flag ? "flag" : "command", printable(word), hint)));
}

// How one command is carried out.
struct Handler {
  CommandId id;
  bool judges_words;  // it says itself which words it takes; else the table of commands does
  int (*carry_out)(const Words& words);
};

constexpr Handler kHandlers[] = {
    {CommandId::run, true, [](const Words& words) { return run_command(words, CalledAs::dtrain); }},
    {CommandId::plan, true, [](const Words& words) { return plan_command(words); }},
    {CommandId::predict, true, predict_command},
    {CommandId::launch, true, [](const Words& words) { return run_command(words, CalledAs::launch); }},
    {CommandId::shim, true, shim},
    {CommandId::agent, true, agent},
    {CommandId::logs, true, show_logs},
    {CommandId::status, true, status_command},
    {CommandId::flight, true, flight_command},
    {CommandId::ckpt, true, ckpt_command},
    {CommandId::estimate, true, estimate_command},
    {CommandId::preprocess, true, preprocess_command},
    {CommandId::cache, true, cache_command},
    {CommandId::rendezvous, true, rendezvous_command},
    {CommandId::doctor, true, doctor_command},
    {CommandId::env, true, env},
    {CommandId::token, true, token_command},
    {CommandId::completion, false,
     [](const Words& words) { return print(completion_script(words.empty() ? "" : words[0])); }},
    {CommandId::install_torchrun, false, install_torchrun},
    {CommandId::version, false, [](const Words&) { return print(version_text()); }},
    {CommandId::help, false, help},
};
static_assert(
    [] {
      for (std::size_t i = 0; i < std::size(kHandlers); ++i)
        if (kHandlers[i].id != CommandId(i)) return false;
      return std::size(kHandlers) == std::size_t(CommandId::help) + 1;
    }(),
    "each command has its handler, in the order of CommandId");

// The error about more words than the table of commands allows.
std::optional<Error> too_many_words(const Command& command, const Words& words) {
  const std::size_t most = command.arguments.empty() ? 0 : 1;
  if (words.size() <= most) return std::nullopt;
  if (words[0].starts_with('-')) return unknown_flag(command, words[0]);
  return usage_error(fmt::format("dtrain {} takes {} ({})", command.name, most == 0 ? "no arguments" : "one argument",
                                 printable(words[most])));
}

int carry_out(const Command& command, const Words& words) {
  const auto asks = [](const std::string& word) { return word == "--help" || word == "-h"; };
  // A job's program may have a --help of its own, and so may a command.
  const auto end = command.runs_command && !words.empty() ? words.begin() + 1 : words.end();
  if (!takes_job(command) && std::any_of(words.begin(), end, asks)) return help({std::string(command.name)});
  const Handler& handler = kHandlers[std::size_t(command.id)];
  if (!handler.judges_words)
    if (const auto error = too_many_words(command, words)) return fail(*error);
  return handler.carry_out(words);
}

int dispatch(const std::string& called_as, const Words& words) {
  const std::string name = called_as.substr(called_as.rfind('/') + 1);
  if (name == "torchrun") return run_command(words, CalledAs::torchrun);
  if (name == "launch") return run_command(words, CalledAs::launch);
  if (words.empty()) return no_command();
  Words rest(words.begin() + 1, words.end());
  if (words[0] == "--help" || words[0] == "-h") return help(rest);
  if (words[0] == "--version") return print(version_line());
  const Command* command = find_command(words[0]);
  return command != nullptr ? carry_out(*command, rest) : unknown_command(words);
}

}  // namespace
}  // namespace dtrain::cli

int main(int argc, char** argv) {
  dtrain::launcher::fill_standard_descriptors();
  dtrain::launcher::tell_of_uncaught_exceptions();
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return dtrain::cli::dispatch(argc > 0 ? argv[0] : "dtrain", words);
}
