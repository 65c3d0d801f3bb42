#include "launcher/logs/log_finder.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <tuple>

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

// A whole number in plain digits, -1 for any other text.
int number_of(std::string_view text) {
  int number = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 ? number : -1;
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (std::error_code ignored; it->symlink_status(ignored).type() == fs::file_type::directory)
      names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void add_file(LogAttempt& attempt, int local_rank, Streams which) {
  const char* name = which == Streams::out ? "stdout.log" : "stderr.log";
  const std::string path = fmt::format("{}/{}/{}", attempt.path, local_rank, name);
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode))
    attempt.files.push_back({path, local_rank, which, status.st_mtim.tv_sec});
}

std::vector<LogAttempt> attempts_in(const std::string& job) {
  std::vector<LogAttempt> attempts;
  for (const std::string& name : folders_in(job)) {
    LogAttempt attempt;
    if (!parse_attempt(name, attempt)) continue;
    attempt.path = job + "/" + name;
    std::vector<int> ranks;
    for (const std::string& rank : folders_in(attempt.path))
      if (number_of(rank) >= 0) ranks.push_back(number_of(rank));
    std::sort(ranks.begin(), ranks.end());
    for (const int rank : ranks) {
      add_file(attempt, rank, Streams::out);
      add_file(attempt, rank, Streams::err);
    }
    attempts.push_back(std::move(attempt));
  }
  std::sort(attempts.begin(), attempts.end(), [](const LogAttempt& a, const LogAttempt& b) {
    return std::tie(a.restart_count, a.again) < std::tie(b.restart_count, b.again);
  });
  return attempts;
}

bool has_attempts(const std::string& folder) {
  LogAttempt ignored;
  for (const std::string& name : folders_in(folder))
    if (parse_attempt(name, ignored)) return true;
  return false;
}

}  // namespace

bool parse_attempt(const std::string& name, LogAttempt& attempt) {
  constexpr std::string_view kStem = "attempt_";
  if (!name.starts_with(kStem)) return false;
  const std::string_view rest = std::string_view(name).substr(kStem.size());
  const size_t bar = rest.find('_');
  attempt.restart_count = number_of(rest.substr(0, bar));
  attempt.again = bar == std::string_view::npos ? 1 : number_of(rest.substr(bar + 1));
  return attempt.restart_count >= 0 && attempt.again >= 1;
}

Result<JobLogs> find_logs(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return Error{ErrorKind::usage, folder + " is not a folder"};
  fs::directory_iterator probe(folder, error);
  if (error) return Error{ErrorKind::usage, fmt::format("{} cannot be read: {}", folder, error.message())};

  JobLogs logs;
  logs.path = folder;
  if (!has_attempts(folder)) {
    std::vector<std::pair<fs::file_time_type, std::string>> jobs;
    for (const std::string& name : folders_in(folder)) {
      const std::string job = folder + "/" + name;
      if (has_attempts(job)) jobs.emplace_back(fs::last_write_time(job, error), job);
    }
    if (jobs.empty())
      return Error{ErrorKind::usage,
                   folder + " has no logs of a job; name the --log-dir of a run, or a folder in it that has attempt_0"};
    logs.path = std::max_element(jobs.begin(), jobs.end())->second;
    logs.jobs = static_cast<int>(jobs.size());
  }
  logs.attempts = attempts_in(logs.path);
  return logs;
}

}  // namespace dtrain::launcher
