// See new_file.h.
#include "strategies/comm/blame/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>

namespace dtrain {
namespace {

// Never opens a file that is there: in a folder of many users that could be another name of somebody's file.
int create_file(const char* path) noexcept {
  return ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

// Whether all of the text is in the file.
bool write_and_close(int fd, const std::string& text) noexcept {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return ::close(fd) == 0 && done == text.size();
}

}  // namespace

// It allocates no memory: a lack of memory may be why the process ends.
bool write_new_file(const std::string& path, const std::string& text) noexcept {
  std::array<char, PATH_MAX> part{};
  const int length = std::snprintf(part.data(), part.size(), "%s.%d.part", path.c_str(), ::getpid());
  if (length < 0 || static_cast<std::size_t>(length) >= part.size()) return false;
  const int fd = create_file(part.data());
  if (fd < 0) return false;
  const bool whole = write_and_close(fd, text);
  const bool written = whole && ::link(part.data(), path.c_str()) == 0;  // unlike rename(), link() replaces no file
  ::unlink(part.data());
  return written;
}

bool replace_file(const std::string& path, const std::string& part, const std::string& text) noexcept {
  int fd = create_file(part.c_str());
  if (fd < 0 && errno == EEXIST && ::unlink(part.c_str()) == 0) fd = create_file(part.c_str());
  if (fd < 0) return false;
  const bool written = write_and_close(fd, text) && ::rename(part.c_str(), path.c_str()) == 0;
  const int error = errno;
  if (!written) ::unlink(part.c_str());
  errno = error;
  return written;
}

}  // namespace dtrain
