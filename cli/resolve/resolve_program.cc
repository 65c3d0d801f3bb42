// What the workers execute, and who reads standard input.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include <fmt/format.h>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/program/program.h"
#include "cli/resolve/resolve_parts.h"

namespace dtrain::cli {
namespace {

// torch.distributed.launch tells a program its local rank by an argument; --use-env leaves it to the environment.
Result<void> add_local_rank(const Given& given, bool no_python, Plan& plan, std::vector<std::string>& command) {
  auto use_env = given.options.on(FlagId::use_env);
  if (!use_env) return use_env.error();
  if (!given.raw.as_launch || *use_env) return {};
  if (no_python)
    return usage_error("--no-python needs --use-env here: launch passes --local-rank to Python scripts only");
  command.insert(command.begin() + 1, "--local-rank=${local_rank}");
  plan.notes.emplace_back(
      "launch passes --local-rank to the program, as torch.distributed.launch did; new programs read LOCAL_RANK from "
      "the environment (--use-env, or dtrain run)");
  return {};
}

// Flags of dtrain that stand after the program, where they are its own. Who has given the flag before it too, or ended
// dtrain's flags with --, knows that.
std::vector<std::string> flags_after_program(const Given& given) {
  std::vector<std::string> found;
  const std::vector<std::string>& command = given.raw.command;
  for (std::size_t i = 1; i < command.size() && command[i] != "--"; ++i) {
    const std::string name = command[i].substr(0, command[i].find('='));
    const Flag* row = name.starts_with("--") ? find_flag(name.substr(2)) : nullptr;
    const bool everybodys = row != nullptr && (row->id == FlagId::help || row->id == FlagId::version);
    if (row != nullptr && !everybodys && row->compat == Compat::none && !given.options.given(row->id))
      found.push_back(name);
  }
  return found;
}

void note_flags_after_program(const Given& given, Plan& plan) {
  if (given.raw.as_torchrun || given.raw.ended) return;
  const std::vector<std::string> found = flags_after_program(given);
  if (found.empty()) return;
  plan.notes.push_back(fmt::format("{} {} to {}: put flags of dtrain before it (put -- before it to hide this note)",
                                   fmt::join(found, ", "), found.size() == 1 ? "goes" : "go",
                                   printable(given.raw.command[0])));
}

void note_strategy_of_python(const Given& given, const Program& program, Plan& plan) {
  if (!program.is_python || plan.spec.strategy.empty()) return;
  const RawValue& asked = given.options[FlagId::strategy];
  plan.notes.push_back(fmt::format("no effect: {} is for C++ programs with dtrain::Parallel, and {} runs in Python",
                                   asked.origin == Origin::flag ? "--strategy" : asked.where, printable(program.name)));
}

Result<void> program(const Given& given, Plan& plan) {
  if (given.raw.command.empty())
    return usage_error(fmt::format("no program given: {0} [flags] PROGRAM [program's arguments]; try {0} --help",
                                   typed_for(given.raw.called())));
  auto module = given.options.on(FlagId::module);
  if (!module) return module.error();
  auto no_python = given.options.on(FlagId::no_python);
  if (!no_python) return no_python.error();
  auto run_path = given.options.on(FlagId::run_path);
  if (!run_path) return run_path.error();
  std::vector<std::string> command = given.raw.command;
  if (auto done = add_local_rank(given, *no_python, plan, command); !done) return done;
  auto program = build_program({command, *module, *no_python, given.raw.as_torchrun, *run_path}, given.host);
  if (!program) return program.error();
  plan.spec.argv = program->argv;
  plan.spec.program = program->name;
  plan.executed_file = program->file;
  if (!program->note.empty()) plan.notes.push_back(program->note);
  note_flags_after_program(given, plan);
  note_strategy_of_python(given, *program, plan);
  return {};
}

Result<void> standard_input(const Given& given, Plan& plan) {
  using Mode = launcher::StdinMode;
  const std::string& text = given.options.text(FlagId::stdin_mode);
  if (text == "all" || text == "none") {
    plan.spec.stdin_mode = {text == "all" ? Mode::Kind::all : Mode::Kind::none, 0};
    return {};
  }
  auto rank = parse_number(text, 0, plan.spec.nproc_per_node - 1);
  if (!rank)
    return given.options.blame(
        FlagId::stdin_mode,
        usage_error(fmt::format("expected all, none or a local rank from 0 to {}", plan.spec.nproc_per_node - 1)));
  plan.spec.stdin_mode = {Mode::Kind::rank, *rank};
  return {};
}

}  // namespace

Result<void> resolve_program(const Given& given, Plan& plan) {
  for (auto step : {program, standard_input})
    if (auto done = step(given, plan); !done) return done;
  return {};
}

}  // namespace dtrain::cli
