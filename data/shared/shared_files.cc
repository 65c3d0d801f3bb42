// Tested by test/process/data/predict_program_test.py.
#include "data/shared/shared_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr int kMode = 0666;  // less the umask

OwnedFd open_shared(const std::string& path, int flags) {
  OwnedFd file(::open(path.c_str(), flags | O_CLOEXEC, kMode));
  if (!file) throw_of_path(path, errno);
  return file;
}

void sync_at(const std::string& path, int flags) {
  const OwnedFd file = open_shared(path, flags);
  if (::fsync(file.get()) != 0) throw_of_path(path, errno);
}

struct Unlinked {
  const std::string& path;
  ~Unlinked() { ::unlink(path.c_str()); }
};

}  // namespace

void throw_of_path(const std::string& path, int error) {
  if (error == ENOENT) throw NotThere{path};
  throw DataError(fmt::format("dtrain: {}: {}", path, std::generic_category().message(error)));
}

std::optional<std::string> read_shared(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) throw_of_path(path, errno);
  std::string text;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_of_path(path, errno);
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

void make_once(const std::string& draft, const std::string& path, const std::function<void(const std::string&)>& write,
               Durable durable) {
  const Unlinked gone{draft};
  write(draft);
  if (durable == Durable::yes) sync_at(draft, O_RDONLY);
  if (::link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) throw_of_path(path, errno);
}

std::string link_content(const std::string& work, const std::string& path, const std::string& content,
                         Durable durable) {
  const std::string draft = work + "/" + std::filesystem::path(path).filename().string() + "." + draft_ending();
  make_once(
      draft, path, [&](const std::string& file) { write_all(file, content); }, durable);
  auto there = read_shared(path);
  if (!there) throw NotThere{path};
  return *there;
}

void write_all(const std::string& path, const std::string& content) {
  const OwnedFd file = open_shared(path, O_WRONLY | O_CREAT | O_EXCL);
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t written = ::write(file.get(), content.data() + at, content.size() - at);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_of_path(path, errno);
    at += static_cast<std::size_t>(written);
  }
}

std::string random_name() {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) throw_of_path("getrandom", errno);
  return fmt::format("{:016x}", random);
}

std::string draft_ending() { return random_name() + ".tmp"; }

std::optional<OwnedFd> try_lock(const std::string& path, Lock lock) {
  OwnedFd file = open_shared(path, O_RDWR | O_CREAT);
  while (::flock(file.get(), (lock == Lock::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    if (errno != EINTR) throw_of_path(path, errno);
  }
  return file;
}

void sync_shared_folder(const std::string& path) { sync_at(path, O_RDONLY | O_DIRECTORY); }

bool is_there(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw_of_path(path, errno);
  return false;
}

}  // namespace dtrain::data
