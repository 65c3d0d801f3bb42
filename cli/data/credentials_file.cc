// Tested by test/process/data/credentials_test.py.
#include "cli/data/credentials_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

Result<void> write_private(const std::string& path, std::string_view text) {
  constexpr mode_t kForOwner = 0600;
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kForOwner));
  if (!file) return system_error(path, errno);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(path, errno);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

Result<std::optional<launcher::KeptFolder>> make_credentials_file(const Host& host) {
  if (host.store_credentials.empty()) return std::optional<launcher::KeptFolder>();
  auto folder = launcher::KeptFolder::make("store");
  if (!folder) return folder.error();
  const std::string path = folder->path() + "/credentials.json";
  if (auto done = write_private(path, host.store_credentials); !done) return done.error();
  if (::setenv(kStoreCredentials, path.c_str(), 1) != 0) return system_error("setenv", errno);
  return std::optional(std::move(*folder));
}

}  // namespace dtrain::cli
