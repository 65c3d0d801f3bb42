#include "launcher/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

std::string read_small_file(const std::string& path) {
  constexpr size_t kLimit = 256 * 1024;
  std::string text;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[4096];
  ssize_t n = 0;
  while (fd && text.size() < kLimit && (n = ::read(fd.get(), buffer, sizeof buffer)) > 0)
    text.append(buffer, size_t(n));
  return text;
}

}  // namespace dtrain::launcher
