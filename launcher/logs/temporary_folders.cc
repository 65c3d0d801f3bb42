#include "launcher/logs/temporary_folders.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>

#include "launcher/base/folders.h"

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kNameTries = 100;
constexpr std::string_view kBegins = "dtrain_";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
constexpr std::size_t kRandom = 8;

std::string random8() {
  unsigned char bytes[kRandom] = {};
  // 40 bits of chance; on failure the name is still tried for being free.
  [[maybe_unused]] ssize_t n = ::getrandom(bytes, sizeof bytes, 0);
  std::string name;
  for (unsigned char byte : bytes) name += kLetters[byte % kLetters.size()];
  return name;
}

// A name that only make_temporary_folder() gives, and its mode and owner.
bool looks_like_ours(const fs::path& path) {
  const std::string name = path.filename().string();
  struct stat facts {};
  return name.size() == kBegins.size() + kRandom && name.starts_with(kBegins) &&
         name.find_first_not_of(kLetters, kBegins.size()) == std::string::npos && ::lstat(path.c_str(), &facts) == 0 &&
         S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & 07777) == 0700;
}

void sweep(const std::string& tmp) {
  std::error_code error;
  for (fs::directory_iterator it(tmp, error), end; !error && it != end; it.increment(error)) {
    if (!looks_like_ours(it->path())) continue;
    if (const UniqueFd taken = take_left_folder(it->path().string())) remove_empty_folders(it->path().string());
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
  sweep(tmp);
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
