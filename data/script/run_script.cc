// Tested by test/process/data/hosted_test.py.
#include "data/script/run_script.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <system_error>

#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/cache/posix_files.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "backend.processor.script";
constexpr int kNoExec = 126;
constexpr int kLookMs = 1000;

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> env;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string text(*each);
    const std::size_t equals = text.find('=');
    if (equals != text.npos) env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return env;
}

// dtrain's modules for Python, as a build or an installation has them. Empty: the user's Python has them, as by a
// wheel.
std::string modules_beside(const fs::path& dtrain) {
  std::error_code ignored;
  for (const char* each : {"../python", "../share/dtrain/python"})
    if (const fs::path folder = dtrain.parent_path() / each; fs::exists(folder / "dtrain_data", ignored))
      return folder.lexically_normal().string();
  return {};
}

// The file may be on this host alone. dtrain takes the text out of its environment, and makes a private file of it on
// each host.
void send_credentials(std::map<std::string, std::string>& environment) {
  const auto found = environment.find(kStoreCredentials);
  if (found == environment.end() || found->second.empty()) return;
  const auto refuse = [&](const std::string& why) {
    throw CacheError(kUsageCode, fmt::format("{}: {}: {}", kStoreCredentials, found->second, why));
  };
  std::error_code error;
  const fs::path file = fs::canonical(found->second, error);
  if (error) refuse(error.message());
  constexpr mode_t kOfOthers = 077;
  if (const auto facts = facts_of(file); facts && (facts->st_mode & kOfOthers) != 0)
    refuse("others can read or change these credentials; do `chmod 600` on the file");
  const auto json = nlohmann::json::parse(read_small_file(file).value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse("it is no JSON object of names and values, as AWS_ACCESS_KEY_ID");
  found->second = json.dump();
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

using MustEnd = std::function<bool()>;

// Returns how it has ended, as wait() says it. Asks it to end as soon as `must_end` says so.
int await_end(pid_t child, const MustEnd& must_end) {
  const OwnedFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  for (bool asked = false;;) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) throw_system("waitpid", errno);
    if (must_end && !asked && must_end()) asked = ::kill(child, SIGTERM) == 0;
    struct pollfd end = {pidfd.get(), POLLIN, 0};  // without one: the time alone
    ::poll(&end, 1, kLookMs);
  }
}

// As await_end().
int run_to_end(std::vector<std::string> words, const std::map<std::string, std::string>& environment,
               const MustEnd& must_end = {}) {
  std::vector<std::string> variables;
  variables.reserve(environment.size());
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  const std::vector<char*> argv = pointers_to(words), envp = pointers_to(variables);
  const OwnedFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw_system("fork", errno);
  if (child == 0) {
    // It ends its workers then, and itself.
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(kNoExec);
    // Standard output is for the answer to the user.
    if (::dup2(nothing.get(), STDIN_FILENO) >= 0 && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0)
      ::execve(argv[0], argv.data(), envp.data());
    ::dprintf(STDERR_FILENO, "dtrain: %s: %s\n", argv[0], std::strerror(errno));
    ::_exit(kNoExec);
  }
  return await_end(child, must_end);
}

void judge(const ScriptJob& job, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (WIFSIGNALED(status))
    throw CacheError(kSystemCode, fmt::format("{}: the job that runs {} was killed by signal {}", kKey, job.script,
                                              WTERMSIG(status)));
  throw CacheError(WEXITSTATUS(status), fmt::format("{}: {} has failed with exit code {}; what it says is above", kKey,
                                                    job.script, WEXITSTATUS(status)));
}

std::vector<std::string> files_of_result(const fs::path& folder) {
  std::vector<std::string> files;
  for (const auto& each : fs::directory_iterator(folder))
    if (each.path().extension() == ".parquet") files.push_back(each.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// An error about a file that the user has never seen.
CacheError of_result(const ScriptJob& job, const std::string& folder, const CacheError& error) {
  const std::string what = error.what();
  const std::size_t found = what.find(folder + "/");
  if (found == what.npos) return error;
  return {error.code,
          fmt::format("{}: the result of {}: {}", kKey, job.script, what.substr(found + folder.size() + 1))};
}

}  // namespace

CacheInput script_file(const ScriptJob& job) {
  struct stat facts = {};
  if (::stat(job.script.c_str(), &facts) != 0)
    throw CacheError(kUsageCode, fmt::format("{}: {}: {}", kKey, job.script, std::generic_category().message(errno)));
  if (!S_ISREG(facts.st_mode))
    throw CacheError(kUsageCode, fmt::format("{}: {}: it is no regular file", kKey, job.script));
  return digest_file(fs::absolute(job.script).lexically_normal());
}

void fill_by_script(const ScriptJob& job, const std::vector<std::string>& input, const fs::path& folder,
                    const FillFrom& fill) {
  const fs::path work = folder / "script";
  fs::create_directory(work);
  std::string list;
  for (const std::string& file : input) list += file + "\n";
  write_new_file(work / "input", list);
  const std::string output = (work / "rows").string();
  auto environment = script_job_environment(job, own_environment(), modules_beside(job.dtrain), folder.string());
  if (job.on_ray) send_credentials(environment);
  judge(job, run_to_end(script_job_words(job, (work / "input").string(), output), environment));
  const std::vector<std::string> files = files_of_result(output);
  if (files.empty()) throw CacheError(1, fmt::format("{}: process() of {} has left no row", kKey, job.script));
  const fs::path made = work / "made";
  fs::create_directory(made);
  try {
    fill(files, made);
  } catch (const CacheError& error) {
    throw of_result(job, output, error);
  }
  for (const auto& each : fs::directory_iterator(made)) rename_path(each.path(), folder / each.path().filename());
  remove_tree(work);
}

void run_workers(const WorkerJob& job, const fs::path& folder, const MustEnd& must_end) {
  auto environment = data_job_environment(own_environment());
  if (!job.nodes.empty()) send_credentials(environment);
  environment[kDataBuild] = folder.string();
  const int status = run_to_end(worker_job_words(job, folder.string()), environment, must_end);
  if (must_end()) return;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  constexpr const char* kWhat = "backend.processor: the job that shares the work among processes";
  if (WIFSIGNALED(status))
    throw CacheError(kSystemCode, fmt::format("{} was killed by signal {}", kWhat, WTERMSIG(status)));
  throw CacheError(WEXITSTATUS(status),
                   fmt::format("{} has failed with exit code {}; what it says is above. num_workers: 1 does all of it "
                               "in one process here",
                               kWhat, WEXITSTATUS(status)));
}

}  // namespace dtrain::data
