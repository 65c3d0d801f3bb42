// dtrain: table of contents. Every command is one function; the words are judged elsewhere (parse.h, resolve.h).
// The job is started from a process that is still small and has one thread: start none here.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/await_host.h"
#include "cli/commands.h"
#include "cli/completion.h"
#include "cli/doctor.h"
#include "cli/dry_run.h"
#include "cli/env_report.h"
#include "cli/fail.h"
#include "cli/flight.h"
#include "cli/help.h"
#include "cli/host.h"
#include "cli/logs.h"
#include "cli/man.h"
#include "cli/parse.h"
#include "cli/resolve.h"
#include "cli/serve.h"
#include "cli/settings_text.h"
#include "cli/status.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "cli/token.h"
#include "cli/usage.h"
#include "cli/version.h"
#include "launcher/exit_codes.h"
#include "launcher/run_job.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;

// A help text that did not reach its reader is a failure: `dtrain help > /dev/full`.
int print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  return fail(system_error("standard output", errno));
}

int completion(const std::string& shell) {
  if (shell.empty()) return fail(usage("completions for which shell? dtrain completion bash, zsh or fish"));
  auto script = completion_script(shell);
  return script ? print(*script) : fail(script.error());
}

int run(const Words& words, CalledAs called) {
  auto raw = parse(words, called);
  if (!raw) return fail(raw.error());
  if (auto& asked = (*raw)[FlagId::help])
    return print((asked->text == "all" ? run_help : common_help)(output_width(), called));
  if ((*raw)[FlagId::version]) return print(version_line());
  if (auto& shell = (*raw)[FlagId::print_completion]) return completion(shell->text);
  const Host host = this_host();
  auto plan = resolve(*raw, host);
  if (!plan) return fail(plan.error());
  if (plan->print_config == Plan::PrintConfig::json) return print(settings_json(plan->settings));
  if (plan->print_config == Plan::PrintConfig::text) return print(settings_table(plan->settings));
  if (plan->dry_run) {
    if (!plan->awaited_host.empty())
      std::fprintf(stderr, "dtrain: there is no host %s yet; the job would wait for it\n", plan->awaited_host.c_str());
    return print(describe(*plan, host.env));
  }
  for (const auto since = std::chrono::steady_clock::now(); !plan->awaited_host.empty();) {
    if (!await_host(*plan, since)) return launcher::kExitTimeLimit;
    plan = resolve(*raw, host);
    if (!plan) return fail(plan.error());
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader of ours that leaves must not take the job with it
  for (const std::string& warning : plan->warnings) std::fprintf(stderr, "dtrain: %s\n", warning.c_str());
  if (!plan->spec.quiet)
    for (const std::string& note : plan->notes) std::fprintf(stderr, "dtrain: %s\n", note.c_str());
  return launcher::run_job(plan->spec);
}

int help(const Words& words) {
  if (words.empty()) return print(short_help(output_width()));
  if (words[0] == "--markdown") return print(markdown_help());
  if (words[0] == "--man") return print(man_page());
  auto text = help_on(words[0], output_width());
  return text ? print(*text) : fail(text.error());
}

int doctor() {
  Findings findings = examine(all_checks());
  int printed = print(report(findings, output_width()));
  return printed != 0 ? printed : verdict(findings);
}

int env(const Words& words) {
  if (words.empty()) return print(env_text(env_facts()));
  if (words == Words{"--json"}) return print(env_json(env_facts()));
  return fail(
      {ErrorKind::usage, fmt::format("dtrain env takes --json and nothing else ({})", printable(words.back()))});
}

int no_command() {
  std::fputs(short_help(output_width(STDERR_FILENO)).c_str(), stderr);
  return launcher::kExitUsage;
}

int unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const Command& row : commands()) names.emplace_back(row.name);
  std::string near = closest(word, names);
  std::string hint = near.empty() ? "to start a program: dtrain run " + shell_quoted(printable(word))
                                  : "did you mean dtrain " + near + "?";
  return fail({ErrorKind::usage, fmt::format("unknown command {}; {}", printable(word), hint)});
}

// How many words it can use, besides those of the commands that count them.
std::size_t most_words(const Command& command) { return command.arguments.empty() ? 0 : 1; }

int carry_out(const Command& command, const Words& rest) {
  if (command.id == CommandId::run) return run(rest, CalledAs::dtrain);
  if (command.id == CommandId::launch) return run(rest, CalledAs::launch);
  const auto asks = [](const std::string& word) { return word == "--help" || word == "-h"; };
  if (std::any_of(rest.begin(), rest.end(), asks)) return help({std::string(command.name)});
  if (command.id == CommandId::logs) return show_logs(rest);
  if (command.id == CommandId::token) return token_command(rest);
  if (command.id == CommandId::status) return status_command(rest);
  if (command.id == CommandId::flight) return flight_command(rest);
  if (command.id == CommandId::rendezvous) return rendezvous_command(rest);
  if (rest.size() > most_words(command))
    return fail(usage(fmt::format("dtrain {} takes {} ({})", command.name,
                                  command.arguments.empty() ? "no arguments" : "one argument",
                                  printable(rest[most_words(command)]))));
  switch (command.id) {
    case CommandId::doctor:
      return doctor();
    case CommandId::env:
      return env(rest);
    case CommandId::completion:
      return completion(rest.empty() ? "" : rest[0]);
    case CommandId::version:
      return print(version_text());
    case CommandId::help:
      return help(rest);
    case CommandId::run:
    case CommandId::launch:
    case CommandId::logs:
    case CommandId::status:
    case CommandId::flight:
    case CommandId::rendezvous:
    case CommandId::token:
      break;
  }
  return launcher::kExitOwnFailure;
}

int dispatch(const std::string& called_as, const Words& words) {
  const std::string name = called_as.substr(called_as.rfind('/') + 1);
  if (name == "torchrun") return run(words, CalledAs::torchrun);
  if (name == "launch") return run(words, CalledAs::launch);
  if (words.empty()) return no_command();
  Words rest(words.begin() + 1, words.end());
  if (words[0] == "--help" || words[0] == "-h") return help(rest);
  if (words[0] == "--version") return print(version_line());
  const Command* command = find_command(words[0]);
  return command != nullptr ? carry_out(*command, rest) : unknown_command(words[0]);
}

}  // namespace
}  // namespace dtrain::cli

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return dtrain::cli::dispatch(argc > 0 ? argv[0] : "dtrain", words);
}
