#include "launcher/logs/temporary_folders.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/base/folders.h"

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kNameTries = 100;
constexpr std::string_view kBegins = "dtrain_";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
constexpr std::size_t kRandom = 8;
// The folders of failed jobs stay, with what was said there, and in time they are thousands: a start does not wait for
// a look into each.
constexpr std::size_t kLookedInto = 8;

// On failure it is always the same; a name is still tried for being free.
std::uint64_t chance() {
  std::uint64_t bits = 0;
  [[maybe_unused]] const ssize_t n = ::getrandom(&bits, sizeof bits, 0);
  return bits;
}

// 40 bits of chance.
std::string random8() {
  std::string name;
  for (std::uint64_t bits = chance(); name.size() < kRandom; bits /= kLetters.size())
    name += kLetters[bits % kLetters.size()];
  return name;
}

// What only make_temporary_folder() calls a folder.
bool is_named_like_ours(const std::string& name) {
  return name.size() == kBegins.size() + kRandom && name.starts_with(kBegins) &&
         name.find_first_not_of(kLetters, kBegins.size()) == std::string::npos;
}

bool is_made_like_ours(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() &&
         (facts.st_mode & 07777) == 0700;
}

void sweep_temporary(const std::string& tmp) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(tmp, error), end; !error && it != end; it.increment(error))
    if (is_named_like_ours(it->path().filename().string())) found.push_back(it->path().string());
  const std::size_t first = found.empty() ? 0 : chance() % found.size();
  for (std::size_t i = 0; i < std::min(found.size(), kLookedInto); ++i) {
    const std::string& path = found[(first + i) % found.size()];
    if (!is_made_like_ours(path)) continue;
    if (const UniqueFd taken = take_left_folder(path)) remove_empty_folders(path);
  }
}

}  // namespace

Error no_folder(const std::string& path, int error) {
  return system_error(fmt::format("cannot make the log folder {} (choose another with --log-dir)", path), error);
}

Result<std::string> make_fresh_folder(const std::string& stem) {
  for (int attempt = 0; attempt < kNameTries; ++attempt) {
    std::string path = stem + random8();
    if (::mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return no_folder(path, errno);
  }
  return no_folder(stem + "*", EEXIST);
}

Result<TemporaryFolder> make_temporary_folder(const std::string& tmp) {
  sweep_temporary(tmp);
  for (int attempt = 0;; ++attempt) {
    auto fresh = make_fresh_folder(fmt::format("{}/{}", tmp, kBegins));
    if (!fresh) return fresh.error();
    UniqueFd held = hold_folder(*fresh);
    const int error = errno;
    if (held) return TemporaryFolder{std::move(*fresh), std::move(held)};
    ::rmdir(fresh->c_str());
    if (attempt == kNameTries) return no_folder(*fresh, error);
  }
}

}  // namespace dtrain::launcher
