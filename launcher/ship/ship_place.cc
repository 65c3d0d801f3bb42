// Tested by test/unit/launcher/ship/ship_place_test.cc.
#include "launcher/ship/ship_place.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "launcher/ship/ship_content.h"

namespace dtrain::launcher {

Result<UniqueFd> make_ship_file(int folder, const ShipFile& file) {
  if (!is_ship_path(file.path)) return Error{ErrorKind::system, "a file's path leads out of the job's folder"};
  UniqueFd inside;
  std::string left = file.path;
  for (auto slash = left.find('/'); slash != std::string::npos; slash = left.find('/')) {
    const std::string name = left.substr(0, slash);
    const int above = inside ? inside.get() : folder;
    if (::mkdirat(above, name.c_str(), 0700) != 0 && errno != EEXIST) return system_error(file.path, errno);
    UniqueFd next(::openat(above, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next) return system_error(file.path, errno);
    inside = std::move(next);
    left.erase(0, slash + 1);
  }
  UniqueFd made(::openat(inside ? inside.get() : folder, left.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file.executable ? 0700 : 0600));
  if (!made) return system_error(file.path, errno);
  // Whatever the umask is.
  if (::fchmod(made.get(), file.executable ? 0700 : 0600) != 0) return system_error(file.path, errno);
  return made;
}

bool is_ship_file(const std::string& path, const ShipFile& file) {
  const auto content = open_content(path);
  if (!content || static_cast<std::uint64_t>(content->facts.st_size) != file.size) return false;
  if (file.executable && (content->facts.st_mode & 0111) == 0) return false;
  const auto digest = digest_of(*content);
  return digest && *digest == file.sha256;
}

Result<void> copy_ship_file(const std::string& path, const ShipFile& file, int into) {
  const auto content = open_content(path);
  if (!content) return content.error();
  const auto digest =
      digest_of(*content, [&](std::string_view bytes) { return write_content(into, bytes, file.path); });
  if (!digest) return digest.error();
  if (*digest == file.sha256) return {};
  return Error{ErrorKind::system, file.path + " has changed while it was copied: start the job again"};
}

}  // namespace dtrain::launcher
