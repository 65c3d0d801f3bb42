#include "launcher/report_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {
namespace {

using Clock = std::chrono::system_clock;

// A file's time comes from a clock of the kernel that is some milliseconds behind.
constexpr auto kCoarse = std::chrono::milliseconds(10);

bool written_since(const std::string& path, Clock::time_point since) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  const auto time = std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  return time >= since.time_since_epoch() - kCoarse;
}

Result<bool> write_to(const UniqueFd& fd, const std::string& path, const std::string& text) {
  if (fd && ::write(fd.get(), text.data(), text.size()) == ssize_t(text.size())) return true;
  return system_error("cannot write the report " + path, errno);
}

Result<bool> write_in_place(const std::string& path, const std::string& text) {
  return write_to(UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)), path, text);
}

// `draft` is complete: give it its name. False: the name belongs to another report of this job.
Result<bool> publish(const std::string& draft, const std::string& path, bool first_hand, Clock::time_point job_began) {
  if (!first_hand) {
    // Unlike a rename, a link never replaces what another agent has put there at this moment.
    if (::link(draft.c_str(), path.c_str()) == 0) return true;
    if (written_since(path, job_began)) return false;
  }
  if (::rename(draft.c_str(), path.c_str()) == 0) return true;
  return system_error("cannot write the report " + path, errno);
}

}  // namespace

Result<bool> write_report_file(const std::string& path, const std::string& json, bool first_hand,
                               Clock::time_point job_began) {
  struct stat status {};
  const bool there = ::stat(path.c_str(), &status) == 0;
  if (there && !S_ISREG(status.st_mode)) return write_in_place(path, json);
  std::error_code error;
  const std::string target = there ? std::filesystem::canonical(path, error).string() : path;
  const std::string draft = fmt::format("{}.{}.tmp", target, ::getpid());
  const UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!fd) {  // the folder may be closed to us, and the file not
    if (!first_hand && written_since(path, job_began)) return false;
    return write_in_place(path, json);
  }
  auto written = write_to(fd, path, json);
  if (written) written = publish(draft, target, first_hand, job_began);
  ::unlink(draft.c_str());  // gone already where it got its name by a rename
  return written;
}

}  // namespace dtrain::launcher
