// inotify for `dtrain logs --follow`.
#include "cli/logs/logs_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace dtrain::cli {

LogsWatch::LogsWatch(const std::string& job) : fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (!fd_) refused(errno, "max_user_instances");
  add(job);
}

void LogsWatch::refused(int error, const char* limit) {
  if (!std::exchange(rescan_, true))
    trouble_ = fmt::format("cannot watch all files ({}; fs.inotify.{}): looking at them every {} s instead",
                           std::strerror(error), limit, kPeriod.count() / 1000);
}

void LogsWatch::add(const std::string& folder) {
  if (!fd_ || ::inotify_add_watch(fd_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_ONLYDIR) >= 0)
    return;
  const bool gone = errno == ENOENT || errno == ENOTDIR;
  if (!gone) refused(errno, "max_user_watches");
}

void LogsWatch::add_tree(const std::string& attempt) {
  add(attempt);
  std::error_code error;
  for (std::filesystem::directory_iterator it(attempt, error), end; !error && it != end; it.increment(error))
    if (std::error_code ignored; it->symlink_status(ignored).type() == std::filesystem::file_type::directory)
      add(it->path().string());
}

std::string LogsWatch::trouble() { return std::exchange(trouble_, {}); }

LogsWatch::Woke LogsWatch::wait(std::optional<std::chrono::milliseconds> limit) {
  std::chrono::milliseconds most = limit.value_or(std::chrono::milliseconds(-1));
  if (rescan_) most = limit ? std::min(*limit, kPeriod) : kPeriod;
  pollfd both[] = {{fd_.get(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
  int ready = 0;
  while ((ready = ::poll(both, 2, static_cast<int>(most.count()))) < 0 && errno == EINTR) {
  }
  if ((both[1].revents & (POLLERR | POLLHUP)) != 0) return Woke::reader_gone;
  if (ready == 0 && limit) return Woke::quiet;
  // What the events say does not matter, not even that some were dropped (IN_Q_OVERFLOW): all files are looked at anew.
  char events[16 * 1024];
  while (fd_ && ::read(fd_.get(), events, sizeof events) > 0) {
  }
  return Woke::look;
}

}  // namespace dtrain::cli
