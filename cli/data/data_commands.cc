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
#include <filesystem>
#include <iterator>

#include "cli/base/fail.h"
#include "cli/base/own_file.h"
#include "cli/base/print.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_dataset.h"
#include "cli/config/config_file.h"
#include "cli/data/data_program.h"
#include "cli/data/data_words.h"
#include "cli/data/dataset_found.h"
#include "cli/machine/file_facts.h"
#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "cli/table/flags.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

// What the config says of the data, as a request, and what its store asks for.
struct DataSaid {
  std::optional<std::string> request{};  // nothing without a config
  std::string credentials{};             // a secret
  std::string file{}, text{};            // of the config
};

Result<DataSaid> said_by_config(const DataAsked& asked) {
  const char* variable = std::getenv(dtrain_variable(flag(FlagId::config)).c_str());
  const std::string file = !asked.config.empty()                            ? asked.config
                           : variable != nullptr && asked.cache_dir.empty() ? variable
                                                                            : "";
  const std::string given = take_store_credentials();
  if (file.empty()) return DataSaid{std::nullopt, given};
  const auto text = text_file(file);
  if (!text) return usage_error(text.error().message).in(fmt::format("--config '{}'", printable(file)));
  auto config = read_config(*text, file);
  if (!config) return config.error();
  auto credentials = read_credentials(config->credentials, file, text_file, file_facts);
  if (!credentials) return credentials.error();
  for (const std::string& warning : credentials->warnings) say(warning);
  return DataSaid{std::move(config->data), credentials->text.empty() ? given : credentials->text, file, *text};
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

void set_for_job(Host& host, const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 1);
  host.env[name] = value;
}

// An entry of the cache, built or found by dtrain-data, and locked. An exit code: there is none.
std::optional<int> find_entry(const char* command, const std::string& request, const DataAs& as, DatasetFound& found) {
  const auto answer = ask_dtrain_data(command, as.ask ? with_nodes(request) : request, as.ask);
  if (!answer) return fail(answer.error());
  if (answer->signal != 0) return end_as(answer->signal);
  if (answer->code != 0) return answer->code;
  auto parsed = parse_dataset_found(answer->text);
  if (!parsed) return fail(parsed.error());
  found = std::move(*parsed);
  if (is_in_store(found.folder)) return std::nullopt;  // nothing there can be held
  if (auto done = hold(found.folder, as.becomes_another); !done) return fail(done.error());
  return std::nullopt;
}

const std::string& keys_of_store(const RawOptions& raw, const Host& host) {
  return raw.credentials.empty() ? host.store_credentials : raw.credentials;
}

// Whoever reads an entry in a store needs them; nobody else gets them.
void give_keys(const std::string& entry, const RawOptions& raw, Host& host) {
  if (is_in_store(entry) && !raw.credentials.empty()) host.store_credentials = raw.credentials;
}

// As a whole path, or the URI in a store. `dataset`: the folder of the config's data set; empty: there is none.
Result<std::string> recipe_file(const RawInput& input, const std::string& dataset) {
  if (is_in_store(input.recipe)) return input.recipe;
  if (input.recipe != "config") return std::filesystem::absolute(input.recipe).lexically_normal().string();
  if (!dataset.empty()) return dataset.substr(0, dataset.rfind('/')) + "/recipe.json";
  return usage_error("--recipe config: the config has no section `dataset`; name a recipe.json instead");
}

// The file was read once; it may be a pipe.
Result<std::vector<std::string>> nodes_of(const DataSaid& said) {
  RawOptions raw;
  raw[FlagId::config] = RawValue{said.file, Origin::flag, "--config"};
  Host host = this_host();
  host.read_text = [read = host.read_text, &said](const std::string& path) {
    return path == said.file ? Result<std::string>(said.text) : read(path);
  };
  return nodes_of_config(std::move(raw), host);
}

std::string path_of_dtrain() {
  const auto self = own_file();
  return self ? self->string() : "";
}

}  // namespace

int preprocess_command(const std::vector<std::string>& words) {
  auto asked = parse_preprocess(words);
  if (!asked) return fail(asked.error());
  const char* engine = std::getenv(dtrain_variable(flag(FlagId::engine)).c_str());
  const auto said = said_by_config(*asked);
  if (!said) return fail(said.error());
  if (!said->request && said->file.empty())
    return fail(usage_error("name the file with the section `dataset`: dtrain preprocess --config job.yaml"));
  const auto nodes = nodes_of(*said);
  if (!nodes) return fail(nodes.error());
  take_launcher(path_of_dtrain(), engine == nullptr ? "" : engine, *nodes, *asked);
  const std::string request = whole_request(*asked, said->request, said->credentials);
  if (!has_dataset(request)) return fail(usage_error("the config has no section `dataset`, which says what to read"));
  return become_dtrain_data("preprocess", request);
}

int cache_command(const std::vector<std::string>& words) {
  const auto asked = parse_cache(words);
  if (!asked) return fail(asked.error());
  const auto said = said_by_config(*asked);
  if (!said) return fail(said.error());
  if (!said->request && asked->cache_dir.empty())
    return fail(usage_error("say which cache: --cache-dir DIR, or --config with the file that names it"));
  return become_dtrain_data("cache", whole_request(*asked, said->request, said->credentials));
}

std::optional<int> provide_dataset(const RawOptions& raw, Host& host, const DataAs& as) {
  if (!raw.data || !has_dataset(*raw.data)) return std::nullopt;
  DataAsked asked;
  asked.request = dataset_request(as.quiet);
  const Options options(raw, host);
  take_launcher(path_of_dtrain(), options.text(FlagId::engine), words_for_nodes(options, host, as.nodes), asked);
  DatasetFound found;
  const std::string request = whole_request(asked, *raw.data, keys_of_store(raw, host));
  if (const auto code = find_entry("preprocess", request, as, found)) return code;
  give_keys(found.folder, raw, host);
  forget_datasets(host);
  for (const auto& [name, folder] : found.variables) set_for_job(host, name, folder);
  if (!as.quiet) say(found.line);
  return std::nullopt;
}

std::optional<int> provide_rows(RawOptions& raw, Host& host, const DataAs& as) {
  if (!raw.raw_input) return std::nullopt;
  const bool has_config = raw.data && has_dataset(*raw.data);
  const auto recipe = recipe_file(*raw.raw_input, has_config ? host.variable("DTRAIN_DATASET") : "");
  if (!recipe) return fail(recipe.error());
  std::string& input = raw.command[raw.raw_input->place];
  DataAsked asked;
  asked.request = rows_request(*raw.raw_input, *recipe, input, raw.data.value_or(""), as.quiet);
  DatasetFound found;
  if (const auto code = find_entry("apply", whole_request(asked, {}, keys_of_store(raw, host)), as, found)) return code;
  give_keys(found.folder, raw, host);
  set_for_job(host, "DTRAIN_RECIPE", *recipe);
  if (!as.quiet)
    say(fmt::format("recipe applied to {} ({} rows): {}", printable(input), found.rows, printable(found.folder, 400)));
  input = found.folder + "/rows";
  return std::nullopt;
}

}  // namespace dtrain::cli
