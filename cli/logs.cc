// `dtrain logs`: finds the files, prints their lines, and with --follow waits for more.
#include "cli/logs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>

#include "cli/logs_options.h"
#include "cli/logs_watch.h"
#include "cli/text.h"
#include "launcher/exit_codes.h"
#include "launcher/line_picker.h"
#include "launcher/log_finder.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

using launcher::JobLogs;
using launcher::LogAttempt;
using launcher::LogFile;

// A file that is read as far as it has been written.
struct Reader {
  UniqueFd fd;
  std::string prefix;
  launcher::LinePicker picker;
};

class Logs {
 public:
  explicit Logs(LogsOptions options) : options_(std::move(options)) {}

  int run();

 private:
  bool wanted(const LogFile& file) const;
  bool wanted(const LogAttempt& attempt) const;
  void read_all(const JobLogs& logs);
  void read(Reader& reader);
  void print(const Reader& reader, std::string_view line);
  void say(const std::string& text) const { std::fprintf(stderr, "dtrain: %s\n", text.c_str()); }
  int follow(const std::string& job);

  LogsOptions options_;
  int from_restart_ = 0;  // without --attempt: rounds before this one are not shown
  int from_again_ = 0;
  std::map<std::string, std::unique_ptr<Reader>> readers_;  // by path
  bool printed_ = false;
  bool broken_ = false;  // the output cannot be written
};

bool Logs::wanted(const LogFile& file) const {
  if (!has(options_.streams, file.which)) return false;
  if (options_.ranks && !options_.ranks->contains(file.local_rank)) return false;
  return !options_.since_unix || file.written_unix >= *options_.since_unix;
}

bool Logs::wanted(const LogAttempt& attempt) const {
  if (options_.attempt) return attempt.restart_count == *options_.attempt;
  return std::pair(attempt.restart_count, attempt.again) >= std::pair(from_restart_, from_again_);
}

void Logs::print(const Reader& reader, std::string_view line) {
  printed_ = true;
  if (line.ends_with('\r')) line.remove_suffix(1);  // each state of a progress bar is a line here
  const bool ends = line.ends_with('\n');
  bool fine = std::fwrite(reader.prefix.data(), 1, reader.prefix.size(), stdout) == reader.prefix.size();
  fine = fine && std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
  if (!fine || (!ends && std::fputc('\n', stdout) == EOF)) broken_ = true;
}

void Logs::read(Reader& reader) {
  constexpr size_t kChunk = 64 * 1024;
  static char buffer[kChunk];
  for (ssize_t n; !broken_ && (n = ::read(reader.fd.get(), buffer, kChunk)) > 0;)
    reader.picker.feed({buffer, static_cast<size_t>(n)}, [&](std::string_view line) { print(reader, line); });
}

// Print what is new in all files; a file that is met for the first time from its beginning.
void Logs::read_all(const JobLogs& logs) {
  for (const LogAttempt& attempt : logs.attempts) {
    if (!wanted(attempt)) continue;
    for (const LogFile& file : attempt.files) {
      std::unique_ptr<Reader>& reader = readers_[file.path];
      if (!reader && wanted(file)) {
        UniqueFd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!fd) say(system_error("cannot read " + file.path, errno).message);
        reader = std::make_unique<Reader>(
            Reader{std::move(fd), fmt::format("[{}] ", file.local_rank), launcher::LinePicker({options_.text})});
      }
      if (reader && reader->fd) read(*reader);
      if (reader && !options_.follow)
        reader->picker.finish([&](std::string_view line) { print(*reader, line); }), reader->fd.reset();
    }
  }
  if (std::fflush(stdout) != 0) broken_ = true;
}

int Logs::follow(const std::string& job) {
  auto watch = LogsWatch::start(job);
  if (!watch) {
    say(watch.error().message);
    return launcher::kExitOwnFailure;
  }
  for (;;) {
    // The folders are watched before they are read, so that nothing falls in between.
    auto logs = launcher::find_logs(job);
    if (logs)
      for (const LogAttempt& attempt : logs->attempts) watch->add_tree(attempt.path);
    logs = launcher::find_logs(job);
    if (logs) read_all(*logs);
    if (broken_ || !watch->wait()) return printed_ ? 0 : 1;
  }
}

int Logs::run() {
  auto logs = launcher::find_logs(options_.folder);
  if (!logs) {
    say(logs.error().message);
    return launcher::kExitUsage;
  }
  if (logs->jobs > 1) say(fmt::format("{}, the newest of {} jobs", printable(logs->path), logs->jobs));
  if (!options_.attempt && !logs->attempts.empty()) {
    const LogAttempt& last = logs->attempts.back();
    from_restart_ = last.restart_count;
    from_again_ = last.again;
    if (logs->attempts.size() > 1)
      say(fmt::format("the last of {} rounds; --attempt N shows those after N restarts", logs->attempts.size()));
  }
  if (options_.follow) return follow(logs->path);
  read_all(*logs);
  if (broken_) {
    say(system_error("standard output", errno).message);
    return launcher::kExitOwnFailure;
  }
  return printed_ ? 0 : 1;
}

}  // namespace

int show_logs(const std::vector<std::string>& words) {
  auto options = parse_logs(words, std::time(nullptr));
  if (options) return Logs(*options).run();
  std::fprintf(stderr, "dtrain: logs: %s\n", options.error().message.c_str());
  return launcher::kExitUsage;
}

}  // namespace dtrain::cli
