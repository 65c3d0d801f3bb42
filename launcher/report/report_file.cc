#include "launcher/report/report_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {
namespace {

using Clock = std::chrono::system_clock;

// A file's time comes from a clock of the kernel that is some milliseconds behind.
constexpr auto kCoarse = std::chrono::milliseconds(10);
// For a reader of a pipe who takes his time.
constexpr auto kPatience = std::chrono::seconds(5);

bool written_since(const std::string& path, Clock::time_point since) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  const auto time = std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  return time >= since.time_since_epoch() - kCoarse;
}

// False when the descriptor took nothing until `end`.
bool wait_for_room(int fd, std::chrono::steady_clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  pollfd room{fd, POLLOUT, 0};
  return left.count() > 0 && ::poll(&room, 1, int(left.count())) > 0;
}

// A path and what it is to the user, who is to read of it where writing fails.
struct Goal {
  const std::string& what;
  const std::string& path;

  Error failed(int error) const { return system_error("cannot write " + what + " " + path, error); }
  Error failed(const std::string& why) const {
    return {ErrorKind::system, fmt::format("cannot write {} {}: {}", what, path, why)};
  }
};

Result<void> write_to(const UniqueFd& fd, const Goal& goal, std::string_view text) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n > 0)
      text.remove_prefix(size_t(n));
    else if ((n == 0 || errno == EAGAIN) && !wait_for_room(fd.get(), end))
      return goal.failed(fmt::format("{} bytes were not read in {} s", text.size(), kPatience.count()));
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
      return goal.failed(errno);
  }
  return {};
}

Result<void> write_in_place(const Goal& goal, std::string_view text) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  const UniqueFd fd(::open(goal.path.c_str(), flags, 0644));
  if (!fd && errno == ENXIO) return goal.failed("nobody reads from it");
  return fd ? write_to(fd, goal, text) : goal.failed(errno);
}

// Gives a complete draft its name. False: the name belongs to another report of this job.
using Publish = std::function<Result<bool>(const std::string& draft, const std::string& target)>;

Result<bool> rename_to(const Goal& goal, const std::string& draft, const std::string& target) {
  if (::rename(draft.c_str(), target.c_str()) == 0) return true;
  return goal.failed(errno);
}

struct Options {
  Publish publish;
  // Asked before what is there is written over, without a draft.
  std::function<bool()> may_overwrite;
};

struct Draft {
  UniqueFd fd;  // none: the folder takes no file of ours
  std::string path;
};

// A new file. What has the first name already stays as it is: a draft of a process that was killed and had this pid, or
// a link that somebody has laid there.
Draft new_draft(const std::string& target) {
  constexpr int kMostDrafts = 100;
  Draft draft;
  for (int number = 0; number < kMostDrafts; ++number) {
    draft.path = fmt::format("{}.{}{}.tmp", target, ::getpid(), number == 0 ? "" : fmt::format("-{}", number));
    draft.fd.reset(::open(draft.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (draft.fd || errno != EEXIST) break;
  }
  return draft;
}

Result<bool> write_whole(const Goal& goal, std::string_view text, const Options& options) {
  const auto in_place = [&]() -> Result<bool> {
    const auto written = write_in_place(goal, text);
    if (!written) return written.error();
    return true;
  };
  struct stat status {};
  const bool there = ::stat(goal.path.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) return in_place();
  std::error_code error;
  const std::string target = there ? std::filesystem::canonical(goal.path, error).string() : goal.path;
  const Draft draft = new_draft(target);
  if (!draft.fd) {  // the folder may be closed to us, and the file not
    if (!options.may_overwrite()) return false;
    return in_place();
  }
  const auto written = write_to(draft.fd, goal, text);
  auto published = written ? options.publish(draft.path, target) : Result<bool>(written.error());
  ::unlink(draft.path.c_str());  // gone already where it got its name by a rename
  return published;
}

}  // namespace

Result<void> write_whole_file(const std::string& what, const std::string& path, std::string_view text) {
  const Goal goal{what, path};
  const Options options{[&](const auto& draft, const auto& target) { return rename_to(goal, draft, target); },
                        [] { return true; }};
  const auto written = write_whole(goal, text, options);
  if (!written) return written.error();
  return {};
}

Result<bool> write_report_file(const std::string& path, const std::string& json, bool first_hand,
                               Clock::time_point job_began) {
  const std::string what = "the report";
  const Goal goal{what, path};
  const auto may_overwrite = [&] { return first_hand || !written_since(path, job_began); };
  const auto publish = [&](const std::string& draft, const std::string& target) -> Result<bool> {
    // Unlike a rename, a link never replaces what another agent has put there at this moment.
    if (!first_hand && ::link(draft.c_str(), target.c_str()) == 0) return true;
    if (!may_overwrite()) return false;
    return rename_to(goal, draft, target);
  };
  return write_whole(goal, json, {publish, may_overwrite});
}

}  // namespace dtrain::launcher
