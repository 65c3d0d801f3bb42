#include "launcher/ship/ship_content.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "rendezvous/agent_link/content_digest.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 18;
constexpr std::size_t kLongestContentShown = 400;

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_size == other.st_size && one.st_mtim.tv_sec == other.st_mtim.tv_sec &&
         one.st_mtim.tv_nsec == other.st_mtim.tv_nsec;
}

std::string shown_content(const std::string& path) { return printable(path, kLongestContentShown); }

}  // namespace

Result<ShipContent> open_content(const std::string& path) {
  ShipContent content{UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)), path, {}};
  if (!content.file || ::fstat(content.file.get(), &content.facts) != 0)
    return system_error(shown_content(path), errno);
  if (S_ISREG(content.facts.st_mode)) return content;
  return Error{ErrorKind::usage, shown_content(path) + " is no regular file"};
}

Result<std::string> digest_of(const ShipContent& content,
                              const std::function<Result<void>(std::string_view bytes)>& take) {
  auto digest = ContentDigest::begin();
  if (!digest) return digest.error();
  std::vector<char> buffer(kBuffer);
  off_t at = 0;
  for (;;) {
    const ssize_t got = ::pread(content.file.get(), buffer.data(), buffer.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(shown_content(content.path), errno);
    if (got == 0) break;
    at += got;
    if (at > content.facts.st_size) break;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    digest->add(bytes);
    if (!take) continue;
    if (auto done = take(bytes); !done) return done.error();
  }
  struct stat now {};
  if (::fstat(content.file.get(), &now) != 0) return system_error(shown_content(content.path), errno);
  if (at != content.facts.st_size || !is_same(content.facts, now))
    return Error{ErrorKind::system,
                 shown_content(content.path) + " has changed while it was read: start the job again"};
  return digest->end();
}

Result<void> write_content(int file, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(shown_content(path), errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace dtrain::launcher
