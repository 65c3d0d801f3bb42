// Tested by test/process/data/cache_test.py.
#include "cli/data/data_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_file.h"
#include "cli/data/data_program.h"
#include "cli/data/data_words.h"
#include "cli/data/dataset_found.h"
#include "cli/machine/file_facts.h"
#include "cli/options/options.h"
#include "cli/table/flags.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

// What the config says of the data; nothing without a config.
Result<std::optional<std::string>> said_by_config(const DataAsked& asked) {
  const char* variable = std::getenv(dtrain_variable(flag(FlagId::config)).c_str());
  const std::string file = !asked.config.empty()                            ? asked.config
                           : variable != nullptr && asked.cache_dir.empty() ? variable
                                                                            : "";
  if (file.empty()) return std::optional<std::string>();
  const auto text = text_file(file);
  if (!text) return usage_error(text.error().message).in(fmt::format("--config '{}'", printable(file)));
  auto config = read_config(*text, file);
  if (!config) return config.error();
  return std::move(config->data);
}

int end_as(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  return 128 + signal;
}

// A command of the cache locks the file for the moment in which it looks whether a job reads the entry.
bool lock_shared(int file) {
  constexpr int kTries = 50, kPauseMs = 20;
  for (int i = 0; i < kTries; ++i) {
    if (::flock(file, LOCK_SH | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK && errno != EINTR) return false;
    ::poll(nullptr, 0, kPauseMs);
  }
  errno = EWOULDBLOCK;
  return false;
}

// Shared, and never given back: the kernel does it when the last process of this job here has ended. `in_exec`: the
// program that this process executes has the lock too.
Result<void> hold(const std::string& entry, bool in_exec) {
  const std::string used = entry + "/used";
  const int file = ::open(used.c_str(), O_RDONLY | O_NOFOLLOW | (in_exec ? 0 : O_CLOEXEC));
  if (file < 0 && errno != ENOENT) return system_error(printable(used, 400), errno);
  if (file >= 0 && !lock_shared(file)) {
    if (errno != EWOULDBLOCK) return system_error(printable(used, 400), errno);
    return Error{ErrorKind::system,
                 fmt::format("{}: another process has locked it; end that process first", printable(used, 400))};
  }
  struct stat held = {}, named = {};
  if (file >= 0 && ::fstat(file, &held) == 0 && ::stat(used.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
      held.st_dev == named.st_dev)
    return {};
  return Error{ErrorKind::system,
               fmt::format("{}: the entry was removed just now: start the job again", printable(entry))};
}

// Of the job whose worker this is, or of the user: this data set may have other splits.
void forget_datasets(Host& host) {
  for (auto variable = host.env.begin(); variable != host.env.end();) {
    const bool is_one = variable->first == "DTRAIN_DATASET" || variable->first.starts_with("DTRAIN_DATASET_");
    if (is_one) ::unsetenv(variable->first.c_str());
    variable = is_one ? host.env.erase(variable) : std::next(variable);
  }
}

}  // namespace

int preprocess_command(const std::vector<std::string>& words) {
  auto asked = parse_preprocess(words);
  if (!asked) return fail(asked.error());
  if (const char* engine = std::getenv(dtrain_variable(flag(FlagId::engine)).c_str())) take_engine(engine, *asked);
  const auto said = said_by_config(*asked);
  if (!said) return fail(said.error());
  if (!*said) return fail(usage_error("name the file with the section `dataset`: dtrain preprocess --config job.yaml"));
  const std::string request = whole_request(*asked, *said);
  if (!has_dataset(request)) return fail(usage_error("the config has no section `dataset`, which says what to read"));
  return become_dtrain_data("preprocess", request);
}

int cache_command(const std::vector<std::string>& words) {
  const auto asked = parse_cache(words);
  if (!asked) return fail(asked.error());
  const auto said = said_by_config(*asked);
  if (!said) return fail(said.error());
  if (!*said && asked->cache_dir.empty())
    return fail(usage_error("say which cache: --cache-dir DIR, or --config with the file that names it"));
  return become_dtrain_data("cache", whole_request(*asked, *said));
}

std::optional<int> provide_dataset(const RawOptions& raw, Host& host, bool quiet, bool becomes_another) {
  if (!raw.data || !has_dataset(*raw.data)) return std::nullopt;
  DataAsked asked;
  asked.request = R"({"json":true})";
  take_engine(Options(raw, host).text(FlagId::engine), asked);
  const auto answer = ask_dtrain_data("preprocess", whole_request(asked, *raw.data));
  if (!answer) return fail(answer.error());
  if (answer->signal != 0) return end_as(answer->signal);
  if (answer->code != 0) return answer->code;
  const auto found = parse_dataset_found(answer->text);
  if (!found) return fail(found.error());
  if (auto done = hold(found->folder, becomes_another); !done) return fail(done.error());
  forget_datasets(host);
  for (const auto& [name, folder] : found->variables) {
    ::setenv(name.c_str(), folder.c_str(), 1);
    host.env[name] = folder;
  }
  if (!quiet) say(found->line);
  return std::nullopt;
}

}  // namespace dtrain::cli
