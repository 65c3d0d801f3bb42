// inotify for `dtrain logs --follow`.
#include "cli/logs_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace dtrain::cli {

Result<LogsWatch> LogsWatch::start(const std::string& job) {
  UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd) return system_error("cannot watch files (see /proc/sys/fs/inotify/max_user_instances)", errno);
  LogsWatch watch(std::move(fd));
  watch.add(job);
  return watch;
}

void LogsWatch::add(const std::string& folder) {
  ::inotify_add_watch(fd_.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO | IN_MODIFY | IN_ONLYDIR);
}

void LogsWatch::add_tree(const std::string& attempt) {
  add(attempt);
  std::error_code error;
  for (std::filesystem::directory_iterator it(attempt, error), end; !error && it != end; it.increment(error))
    if (std::error_code ignored; it->is_directory(ignored)) add(it->path().string());
}

bool LogsWatch::wait() {
  pollfd both[] = {{fd_.get(), POLLIN, 0}, {STDOUT_FILENO, 0, 0}};
  while (::poll(both, 2, -1) < 0 && errno == EINTR) {
  }
  if ((both[1].revents & (POLLERR | POLLHUP)) != 0) return false;
  char events[16 * 1024];
  while (::read(fd_.get(), events, sizeof events) > 0) {
  }
  return true;
}

}  // namespace dtrain::cli
