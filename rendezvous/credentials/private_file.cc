#include "rendezvous/credentials/private_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dtrain {

Result<UniqueFd> open_private_file(const std::string& path) {
  // Not blocking: a FIFO is opened at once, and then refused.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return Error{ErrorKind::usage, std::strerror(errno), errno};
  struct stat facts = {};
  if (fstat(fd.get(), &facts) != 0) return system_error("cannot look at it", errno);
  if (!S_ISREG(facts.st_mode)) return Error{ErrorKind::usage, "not a regular file"};
  if (facts.st_uid != geteuid())
    return Error{ErrorKind::usage, fmt::format("belongs to user {}, not to you ({})", facts.st_uid, geteuid())};
  if ((facts.st_mode & 077) != 0)
    return Error{ErrorKind::usage,
                 fmt::format("others may read or change it (mode {:04o}): chmod 600, and make a new one if somebody "
                             "may have read it",
                             facts.st_mode & 07777)};
  return fd;
}

}  // namespace dtrain
