#include "launcher/base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {
namespace {

constexpr int kReading = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// Empties `text` and reads at most `most` bytes into it. False with errno set if that fails.
bool read_up_to(const UniqueFd& fd, size_t most, std::string& text) {
  constexpr size_t kPiece = 16 * 1024;
  text.clear();
  while (text.size() < most) {
    const size_t before = text.size();
    text.resize(before + std::min(kPiece, most - before));
    const ssize_t n = ::read(fd.get(), text.data() + before, text.size() - before);
    text.resize(before + (n > 0 ? size_t(n) : 0));
    if (n < 0 && errno != EINTR) return false;
    if (n == 0) break;
  }
  return true;
}

Result<std::string> read_regular(const UniqueFd& fd, size_t limit) {
  const auto failed = [] { return Error{ErrorKind::system, std::strerror(errno), errno}; };
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return failed();
  if (!S_ISREG(status.st_mode)) return Error{ErrorKind::system, "it is not a regular file"};
  std::string text;
  if (!read_up_to(fd, limit + 1, text)) return failed();
  return text;
}

}  // namespace

std::string read_small_file(const std::string& path) {
  constexpr size_t kLimit = 256 * 1024;
  std::string text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd) read_up_to(fd, kLimit, text);
  return text;
}

Result<std::string> read_regular_file(const std::string& path, size_t limit) {
  return read_regular(UniqueFd(::open(path.c_str(), kReading)), limit);
}

Result<std::string> read_found_file(const std::string& path, size_t limit) {
  const UniqueFd fd(::open(path.c_str(), kReading | O_NOFOLLOW));
  if (!fd && errno == ELOOP) return Error{ErrorKind::system, "it is a link, which is not followed", ELOOP};
  return read_regular(fd, limit);
}

}  // namespace dtrain::launcher
