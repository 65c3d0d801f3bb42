#include "launcher/spill/state_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "launcher/spill/crc32c.h"

namespace dtrain::launcher {
namespace {

constexpr std::size_t kStatePiece = std::size_t{4} << 20;

Error state_error(const std::string& what, int error = errno) {
  return {ErrorKind::system, what.empty() ? std::strerror(error) : what + ": " + std::strerror(error), error};
}

// It leaves the offset, which workers share with a memory, where it is.
Result<void> put_all(int fd, const char* data, std::size_t bytes, std::uint64_t at) {
  while (bytes != 0) {
    const ssize_t n = ::pwrite(fd, data, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return state_error("");
    data += n;
    at += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

// All of the bytes: `fd` has them.
Result<void> get_all(int fd, char* data, std::size_t bytes, std::uint64_t at) {
  while (bytes != 0) {
    const ssize_t n = ::pread(fd, data, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return state_error("");
    if (n == 0) return Error{ErrorKind::system, "it has become shorter"};
    data += n;
    at += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

// Others may have laid it there.
Result<void> check_state_file(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return state_error("");
  if (!S_ISREG(facts.st_mode)) return Error{ErrorKind::usage, "it is not a regular file"};
  if (facts.st_uid != ::geteuid())
    return Error{ErrorKind::usage, fmt::format("it belongs to user {}, not to you ({})", facts.st_uid, ::geteuid())};
  if ((facts.st_mode & 077) != 0)
    return Error{ErrorKind::usage, fmt::format("others may read or change it (mode {:04o})", facts.st_mode & 07777)};
  return {};
}

// What is not complete yet. Where the file system can, it has no name, so nothing is left whatever kills this process;
// elsewhere the next run takes the name again.
class UnfinishedFile final : public WrittenState {
 public:
  UnfinishedFile(int folder, std::string final_name)
      : folder_(folder), final_name_(std::move(final_name)), name_(unfinished_name(final_name_)) {
    ::unlinkat(folder_, name_.c_str(), 0);  // of a run that was killed
    fd_ = UniqueFd(::openat(folder_, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (!fd_ && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
      fd_ = UniqueFd(::openat(folder_, name_.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0600));
      named_ = bool(fd_);
    }
    if (!fd_) error_ = errno;
  }
  ~UnfinishedFile() override {
    if (named_) ::unlinkat(folder_, name_.c_str(), 0);
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  int fd() const { return fd_.get(); }
  int error() const { return error_; }  // why there is none

  // A full disk may show only now. The next run's reader must take it, and some file systems choose owner and mode.
  Result<void> sync() const {
    if (::fsync(fd_.get()) != 0) return state_error("");
    return check_state_file(fd_.get());
  }

  Result<void> prepare() override {
    if (named_) return {};
    const std::string link = fmt::format("/proc/self/fd/{}", fd_.get());
    if (::linkat(AT_FDCWD, link.c_str(), folder_, name_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return state_error("").in(final_name_);
    named_ = true;
    return {};
  }

  Result<void> publish() override {
    if (::renameat(folder_, name_.c_str(), folder_, final_name_.c_str()) != 0) return state_error("").in(final_name_);
    named_ = false;
    if (::fsync(folder_) != 0 && errno != EINVAL) return state_error("").in(final_name_);
    return {};
  }

 private:
  const int folder_;
  const std::string final_name_, name_;
  UniqueFd fd_;
  int error_ = 0;
  bool named_ = false;
};

Result<void> write_state(UnfinishedFile& file, const StateHead& head, int memory, MonoTime until) {
  if (file.fd() < 0) return state_error("", file.error());
  const std::string text = state_head_text(head);
  std::uint32_t sum = crc32c(0, text.data(), text.size());
  if (auto wrote = put_all(file.fd(), text.data(), text.size(), 0); !wrote) return wrote;
  const auto piece = std::make_unique_for_overwrite<char[]>(kStatePiece);
  for (std::uint64_t at = 0; at < head.bytes;) {
    if (SteadyClock::now() >= until) return Error{ErrorKind::unavailable, "the time was too short to write it"};
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kStatePiece, head.bytes - at));
    if (auto got = get_all(memory, piece.get(), size, at); !got) return got.error().in("the memory");
    sum = crc32c(sum, piece.get(), size);
    if (auto wrote = put_all(file.fd(), piece.get(), size, kStateHeadBytes + at); !wrote) return wrote;
    // The disk begins with it now, so that little is left to wait for at the end.
    ::sync_file_range(file.fd(), static_cast<off_t>(kStateHeadBytes + at), static_cast<off_t>(size),
                      SYNC_FILE_RANGE_WRITE);
    at += size;
  }
  const std::string last = state_sum_text(sum);
  return put_all(file.fd(), last.data(), last.size(), kStateHeadBytes + head.bytes);
}

Result<UniqueFd> open_state_file(int folder, const std::string& name) {
  UniqueFd fd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW));
  if (!fd && errno == ELOOP) return Error{ErrorKind::usage, "it is a link, which is not followed", ELOOP};
  if (!fd) return state_error("");
  if (auto good = check_state_file(fd.get()); !good) return good.error();
  return fd;
}

Result<void> read_state(int fd, const StateOwner& owner, int memory, const std::function<bool()>& given_up) {
  auto size = state_bytes(fd);
  if (!size) return size.error();
  std::string text(kStateHeadBytes, ' ');
  if (*size < kStateHeadBytes) return Error{ErrorKind::usage, "it is cut off, or no state that dtrain has written"};
  if (auto got = get_all(fd, text.data(), text.size(), 0); !got) return got;
  const auto head = parse_state_head(text);
  if (!head) return head.error();
  if (const auto why = why_not_its_state(head->owner, owner)) return Error{ErrorKind::usage, *why};
  if (*size != state_file_bytes(*head))
    return Error{ErrorKind::usage, fmt::format("it has {} bytes, and should have {}", *size, state_file_bytes(*head))};
  std::uint32_t sum = crc32c(0, text.data(), text.size());
  const auto piece = std::make_unique_for_overwrite<char[]>(kStatePiece);
  for (std::uint64_t at = 0; at < head->bytes;) {
    if (given_up()) return Error{ErrorKind::unavailable, "the job is to end"};
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(kStatePiece, head->bytes - at));
    if (auto got = get_all(fd, piece.get(), bytes, kStateHeadBytes + at); !got) return got;
    sum = crc32c(sum, piece.get(), bytes);
    if (auto wrote = put_all(memory, piece.get(), bytes, at); !wrote) return wrote.error().in("the memory for it");
    at += bytes;
  }
  std::string last(kStateSumBytes, '\0');
  if (auto got = get_all(fd, last.data(), last.size(), kStateHeadBytes + head->bytes); !got) return got;
  if (parse_state_sum(last) != sum)
    return Error{ErrorKind::usage,
                 fmt::format("it is damaged: its CRC-32C is {:08x}, and should be {:08x}", sum, parse_state_sum(last))};
  return {};
}

}  // namespace

Result<UniqueFd> open_state_folder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return state_error(path);
  return folder;
}

Result<std::unique_ptr<WrittenState>> write_state_file(int folder, const StateHead& head, int memory, MonoTime until) {
  const std::string name = state_file_name(head.owner);
  auto file = std::make_unique<UnfinishedFile>(folder, name);
  auto wrote = write_state(*file, head, memory, until);
  if (wrote) wrote = file->sync();
  if (!wrote) return wrote.error().in(name);
  return std::unique_ptr<WrittenState>(std::move(file));
}

Result<bool> read_state_file(int folder, const StateOwner& owner, int memory, const std::function<bool()>& given_up) {
  const std::string name = state_file_name(owner);
  const auto file = open_state_file(folder, name);
  if (!file && file.error().errno_value == ENOENT) return false;
  if (!file) return file.error().in(name);
  if (auto read = read_state(file->get(), owner, memory, given_up); !read) return read.error().in(name);
  return true;
}

Result<int> remove_state_files(int folder, const std::string& job, std::optional<int> node) {
  UniqueFd again(::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(again ? ::fdopendir(again.get()) : nullptr, ::closedir);
  if (!entries) return state_error("");
  again.release();
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries.get()))
    if (is_state_file(entry->d_name, job, node)) names.emplace_back(entry->d_name);
  int removed = 0;
  for (const std::string& name : names) {
    if (::unlinkat(folder, name.c_str(), 0) == 0)
      ++removed;
    else if (errno != ENOENT)  // another node is faster
      return state_error(name);
  }
  return removed;
}

Result<std::uint64_t> state_bytes(int memory) {
  struct stat facts {};
  if (::fstat(memory, &facts) != 0) return state_error("");
  return static_cast<std::uint64_t>(facts.st_size);
}

}  // namespace dtrain::launcher
