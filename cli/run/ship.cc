#include "cli/run/ship.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "cli/base/parse_value.h"
#include "cli/base/print.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/machine/user_token.h"
#include "launcher/ship/ship_list.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

constexpr int kMostMiB = 16384;
constexpr std::size_t kLongestShown = 1024;

bool is_script_name(const std::string& word) {
  for (const char* ending : {".py", ".pyc", ".pyz", ".zip"})
    if (word.ends_with(ending)) return true;
  return false;
}

// The path that the program's word is; empty: a module, or a command in PATH, which each node has.
Result<std::string> program_path(const RawOptions& raw, const Options& options, const Host& host) {
  const auto module = options.on(FlagId::module), run_path = options.on(FlagId::run_path);
  if (!module) return module.error();
  if (!run_path) return run_path.error();
  const std::string& word = raw.command[0];
  const bool is_path =
      *run_path ||
      (!*module && (word.find('/') != std::string::npos ||
                    ((is_script_name(word) || raw.as_torchrun) && host.probe(word).kind != FileFacts::Kind::missing)));
  return is_path ? word : std::string();
}

// A path below the job's folder stays right in a folder of another name.
std::string below_folder(const std::string& word, const std::string& folder) {
  const std::filesystem::path path(word);
  if (!path.is_absolute()) return word;
  return "./" + path.lexically_normal().lexically_relative(folder).string();
}

std::vector<std::string> secrets_of(const Options& options, const Host& host) {
  return {options.text(FlagId::token_file), host.variable("DTRAIN_TOKEN_FILE"), usual_token_file(host),
          options.text(FlagId::tls_key)};
}

// Nodes work in different folders, and those of the job's own are removed.
Result<void> check_folders(const Options& options) {
  for (const FlagId flag : {FlagId::log_dir, FlagId::state_dir}) {
    const std::string& folder = options.text(flag);
    if (folder.empty() || folder.starts_with('/')) continue;
    return usage_error(
        fmt::format("{} {} with --ship: give an absolute path, because a node that gets files works in a "
                    "folder that is removed at the job's end",
                    options[flag].where, printable(folder, kLongestShown)));
  }
  return {};
}

// The user names no files, and the program is none.
Error nothing_to_ship(const std::string& word) {
  return usage_error(
      fmt::format("--ship: {} is no file below the working folder; name what the nodes lack with "
                  "--ship-files",
                  printable(word, kLongestShown)));
}

}  // namespace

Result<bool> ships(const Options& options) {
  const auto on = options.on(FlagId::ship);
  if (!on) return on.error();
  return *on || !parse_texts(options.text(FlagId::ship_files)).empty();
}

Result<void> check_no_ship(const Options& options) {
  for (const FlagId id : {FlagId::ship, FlagId::ship_files})
    if (options.insists_on(id) && options.text(id) != "0")
      return usage_error(fmt::format(
          "{} is for --hosts, and --engine ray or spark, where dtrain has a link to each node; with SLURM use sbcast, "
          "elsewhere a folder that all nodes share",
          options[id].where));
  return {};
}

Result<void> add_ship(const RawOptions& raw, const Options& options, const Host& host, launcher::AgentTask& task) {
  const auto wanted = ships(options);
  if (!wanted) return wanted.error();
  if (!*wanted) return {};
  if (auto done = check_folders(options); !done) return done;
  const auto limit = parse_number(options.text(FlagId::ship_limit), 1, kMostMiB);
  if (!limit) return options.blame(FlagId::ship_limit, limit.error());
  launcher::ShipRequest request{task.folder, parse_texts(options.text(FlagId::ship_files)),
                                static_cast<std::uint64_t>(*limit) << 20, secrets_of(options, host)};
  const auto program = program_path(raw, options, host);
  if (!program) return program.error();
  if (program->empty() && request.paths.empty()) return nothing_to_ship(raw.command[0]);
  if (!program->empty()) {
    if (host.probe(*program).kind == FileFacts::Kind::missing)
      return Error{ErrorKind::not_found, printable(*program, kLongestShown) + ": no such file"};
    request.paths.push_back(*program);
  }
  auto list = launcher::list_ship_files(request);
  if (!list) return list.error().in("--ship");
  if (!program->empty()) task.words[task.words.size() - raw.command.size()] = below_folder(raw.command[0], task.folder);
  if (list->left_out > 0)
    say(fmt::format("--ship leaves {} or caches of Python behind: name those that the job needs",
                    counted(list->left_out, "hidden file")));
  task.ship = std::move(list->files);
  return {};
}

std::string ship_shown(const launcher::AgentTask& task) {
  std::string text;
  for (const launcher::ShipFile& file : task.ship)
    text += fmt::format("to nodes that lack it: {} ({} bytes)\n", printable(file.path, kLongestShown), file.size);
  return text;
}

}  // namespace dtrain::cli
