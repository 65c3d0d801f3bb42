// `dtrain logs`: finds the files, prints their lines, and with --follow waits for more.
#include "cli/logs/logs.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/text.h"
#include "cli/logs/logs_options.h"
#include "cli/logs/logs_reader.h"
#include "cli/logs/logs_watch.h"
#include "launcher/job/exit_codes.h"
#include "launcher/logs/log_finder.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

using launcher::JobLogs;
using launcher::LogAttempt;
using launcher::LogFile;
using std::chrono::milliseconds;

// How long the end of a followed file stands still before an unfinished line is shown.
constexpr milliseconds kQuiet{250};

class Logs {
 public:
  explicit Logs(LogsOptions options) : options_(std::move(options)) {}

  int run();

 private:
  bool wanted(const LogFile& file) const;
  bool wanted(const LogAttempt& attempt) const;
  LogReader* reader_of(const LogFile& file);
  std::vector<LogReader*> readers_of(const LogAttempt& attempt);
  void show_all(const JobLogs& logs);
  void show_new(const JobLogs& logs);
  void show(const LogReader& reader, const LogPiece& piece);
  void put(std::string_view text);
  bool flush();
  void say(const std::string& text) const { std::fprintf(stderr, "dtrain: %s\n", printable(text, 1000).c_str()); }
  void say_what_since_means();
  void say_why_nothing(const JobLogs& logs) const;
  int follow(const std::string& job);
  // Show unfinished lines; or, if there are none, nothing.
  void quiet();
  bool waits() const;

  LogsOptions options_;
  int from_restart_ = 0;  // without --attempt: rounds before this one are not shown
  int from_again_ = 0;
  std::map<std::string, std::unique_ptr<LogReader>> readers_;  // by path; null: it could not be opened
  const LogReader* open_ = nullptr;                            // the file whose unfinished line ends the output
  const LogReader::Show show_ = [this](const LogReader& reader, const LogPiece& piece) { show(reader, piece); };
  bool printed_ = false;
  bool said_since_ = false;
  bool broken_ = false;  // the output cannot be written
};

bool Logs::wanted(const LogFile& file) const {
  return has(options_.streams, file.which) && (!options_.ranks || options_.ranks->contains(file.local_rank));
}

bool Logs::wanted(const LogAttempt& attempt) const {
  if (options_.attempt) return attempt.restart_count == *options_.attempt;
  return std::pair(attempt.restart_count, attempt.again) >= std::pair(from_restart_, from_again_);
}

void Logs::put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) broken_ = true;
}

bool Logs::flush() {
  if (std::fflush(stdout) != 0) broken_ = true;
  return !broken_;
}

// Lines stay whole as far as they can: what comes from another file goes to a line of its own.
void Logs::show(const LogReader& reader, const LogPiece& piece) {
  printed_ = true;
  std::string_view bytes = piece.bytes;
  if (piece.ends && bytes.ends_with('\r')) bytes.remove_suffix(1);  // each state of a progress bar is a line here
  if (open_ != nullptr && open_ != &reader) put("\n");
  if (open_ != &reader) put(reader.prefix());
  put(bytes);
  if (piece.ends && !bytes.ends_with('\n')) put("\n");
  open_ = piece.ends ? nullptr : &reader;
}

// The file's reader; null if it is not to be shown, or cannot be.
LogReader* Logs::reader_of(const LogFile& file) {
  auto known = readers_.find(file.path);
  if (known != readers_.end()) return known->second.get();
  LineFilter filter{options_.text, {}};
  if (options_.since_unix) filter.since_ms = *options_.since_unix * 1000;
  auto opened = LogReader::open(file, std::move(filter));
  if (!opened) {
    say(opened.error().message);
    readers_[file.path] = nullptr;
    return nullptr;
  }
  // What carries no times is shown as a whole or not at all.
  if (options_.since_unix && !opened->timed() && file.written_unix < *options_.since_unix) return nullptr;
  return (readers_[file.path] = std::make_unique<LogReader>(std::move(*opened))).get();
}

std::vector<LogReader*> Logs::readers_of(const LogAttempt& attempt) {
  std::vector<LogReader*> readers;
  for (const LogFile& file : attempt.files)
    if (LogReader* reader = wanted(file) ? reader_of(file) : nullptr; reader != nullptr) readers.push_back(reader);
  return readers;
}

void Logs::say_what_since_means() {
  if (!options_.since_unix || std::exchange(said_since_, true)) return;
  std::size_t timed = 0, whole = 0;
  for (const auto& [path, reader] : readers_)
    if (reader && !reader->empty()) ++(reader->timed() ? timed : whole);
  if (timed + whole == 0)
    say("--since: no file was written to since then");
  else if (whole == 0)
    say("--since: judged by the time at the start of each line");
  else if (timed == 0)
    say("--since: the lines do not begin with times, so these are whole files, judged by the time of their last write");
  else
    say(fmt::format(
        "--since: {} judged by the time at the start of each line, {} as a whole by the time of the last write",
        counted(timed, "file"), whole));
}

void Logs::say_why_nothing(const JobLogs& logs) const {
  const auto is_wanted = [this](const LogAttempt& attempt) { return wanted(attempt); };
  if (std::none_of(logs.attempts.begin(), logs.attempts.end(), is_wanted))
    return say(options_.attempt
                   ? fmt::format("no round after {} restarts; the last one came after {}", *options_.attempt,
                                 logs.attempts.empty() ? 0 : logs.attempts.back().restart_count)
                   : "no round has begun");
  if (std::none_of(readers_.begin(), readers_.end(),
                   [](const auto& one) { return one.second && !one.second->empty(); }))
    return options_.since_unix ? void() : say("the files that you asked for are empty");
  say(options_.text.empty() ? "nothing that you asked for was written"
                            : fmt::format("no line has '{}'", printable(options_.text)));
}

// Everything that is there now: by time if all files carry times, else file by file.
void Logs::show_all(const JobLogs& logs) {
  std::vector<std::vector<LogReader*>> rounds;
  for (const LogAttempt& attempt : logs.attempts)
    if (wanted(attempt)) rounds.push_back(readers_of(attempt));
  say_what_since_means();
  for (const std::vector<LogReader*>& files : rounds) {
    const bool timed =
        std::all_of(files.begin(), files.end(), [](const LogReader* file) { return file->timed() || file->empty(); });
    if (timed) {
      show_by_time(files, show_, [this] { return broken_; });
      continue;
    }
    for (LogReader* file : files) {
      while (!broken_ && file->more(show_)) {
      }
      file->finish(show_);
    }
  }
  flush();
}

// What is new in all files; a file that is met for the first time from its beginning.
void Logs::show_new(const JobLogs& logs) {
  for (const LogAttempt& attempt : logs.attempts) {
    if (!wanted(attempt)) continue;
    for (LogReader* file : readers_of(attempt))
      while (!broken_ && file->more(show_)) {
      }
  }
  flush();
  say_what_since_means();
}

bool Logs::waits() const {
  return std::any_of(readers_.begin(), readers_.end(),
                     [](const auto& entry) { return entry.second && entry.second->waits(); });
}

void Logs::quiet() {
  for (const auto& [path, reader] : readers_)
    if (reader) reader->quiet(show_);
  flush();
}

int Logs::follow(const std::string& job) {
  LogsWatch watch(job);
  for (auto woke = LogsWatch::Woke::look; woke != LogsWatch::Woke::reader_gone;) {
    if (woke == LogsWatch::Woke::quiet) quiet();
    // The folders are watched before they are read, so that nothing falls in between.
    if (auto logs = launcher::find_logs(job); logs)
      for (const LogAttempt& attempt : logs->attempts) watch.add_tree(attempt.path);
    if (const std::string trouble = watch.trouble(); !trouble.empty()) say(trouble);
    if (auto logs = launcher::find_logs(job); logs) show_new(*logs);
    if (broken_) break;
    woke = watch.wait(waits() ? std::optional(kQuiet) : std::nullopt);
  }
  return printed_ ? 0 : 1;
}

int Logs::run() {
  auto logs = launcher::find_logs(options_.folder);
  if (!logs) {
    say(logs.error().message);
    return launcher::kExitUsage;
  }
  if (logs->jobs > 1)
    say(fmt::format("showing {}, the newest of {} folders; a job has one folder for each node", printable(logs->path),
                    logs->jobs));
  if (!options_.attempt && !logs->attempts.empty()) {
    const LogAttempt& last = logs->attempts.back();
    from_restart_ = last.restart_count;
    from_again_ = last.again;
    if (logs->attempts.size() > 1)
      say(fmt::format("showing the last of {} rounds; --attempt N shows the rounds after N restarts",
                      logs->attempts.size()));
  }
  if (options_.follow) return follow(logs->path);
  show_all(*logs);
  if (broken_) {
    say(system_error("standard output", errno).message);
    return launcher::kExitOwnFailure;
  }
  if (!printed_) say_why_nothing(*logs);
  return printed_ ? 0 : 1;
}

}  // namespace

int show_logs(const std::vector<std::string>& words) {
  rlimit files{};  // all files of a round are open at once
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  auto options = parse_logs(words, std::time(nullptr));
  return options ? Logs(*options).run() : fail(options.error());
}

}  // namespace dtrain::cli
