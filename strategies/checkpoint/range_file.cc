// See range_file.h.
#include "strategies/checkpoint/range_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "strategies/checkpoint/crc32c.h"

namespace dtrain::checkpoint {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;       // summed while it is in the CPU's cache
constexpr std::size_t kCachedBytes = std::size_t{128} << 10;    // read at a time, if they are summed
constexpr std::size_t kBlockBytes = 4096;                       // what O_DIRECT is aligned to
constexpr std::size_t kDirectBytes = std::size_t{4} << 20;      // written at a time
constexpr std::size_t kDirectFrom = std::size_t{1} << 20;       // smaller ranges go through the page cache
constexpr std::size_t kWritebackBytes = std::size_t{16} << 20;  // the disk begins with these while the next are copied

int flags_of(RangeFile::Use use) {
  if (use == RangeFile::Use::create) return O_RDWR | O_CREAT | O_EXCL;
  return use == RangeFile::Use::write ? O_WRONLY : O_RDONLY | O_NONBLOCK;
}

}  // namespace

RangeFile::RangeFile(std::string path, Use use) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), flags_of(use) | O_CLOEXEC, 0666);
  if (descriptor_ < 0) failed(use == Use::create ? "made" : "opened");
  struct stat facts {};
  if (::fstat(descriptor_, &facts) == 0 && !S_ISREG(facts.st_mode)) {
    ::close(descriptor_);
    refuse("is no regular file");
  }
}

RangeFile::~RangeFile() {
  stop_direct();
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RangeFile::refuse(const std::string& why) const { throw Refused(fmt::format("{} {}", path_, why)); }

void RangeFile::failed(const char* to_do) const {
  refuse(fmt::format("cannot be {}: {}", to_do, std::strerror(errno)));
}

std::uint64_t RangeFile::bytes() const {
  struct stat facts {};
  if (::fstat(descriptor_, &facts) != 0) failed("examined");
  return static_cast<std::uint64_t>(facts.st_size);
}

void RangeFile::reserve(std::uint64_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (bytes == 0) return;
  int done = 0;
  do done = ::fallocate(descriptor_, 0, 0, size);
  while (done != 0 && errno == EINTR);
  if (done == 0) return;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) failed("given its size");
  if (::ftruncate(descriptor_, size) != 0) failed("given its size");
}

void RangeFile::write_directly() {
  blocks_.reset(static_cast<char*>(std::aligned_alloc(kBlockBytes, kDirectBytes)));
  if (blocks_) direct_ = ::open(path_.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
}

void RangeFile::stop_direct() {
  if (direct_ >= 0) ::close(std::exchange(direct_, -1));
}

std::uint32_t RangeFile::write(std::uint64_t at, const void* data, std::size_t bytes, std::uint32_t before) {
  const auto* from = static_cast<const char*>(data);
  // Other parts may lie in the first block and in the last one.
  const std::size_t head = std::min((kBlockBytes - at % kBlockBytes) % kBlockBytes, bytes);
  const std::size_t whole = (bytes - head) / kBlockBytes * kBlockBytes;
  if (direct_ < 0 || whole < kDirectFrom) return write_cached(at, from, bytes, before);
  before = write_cached(at, from, head, before);
  const std::size_t done = head + write_blocks(at + head, from + head, whole, before);
  return write_cached(at + done, from + done, bytes - done, before);
}

// Returns how many bytes it has written; what it cannot write is left to the page cache, which tells the error too.
std::size_t RangeFile::write_blocks(std::uint64_t at, const char* from, std::size_t bytes, std::uint32_t& sum) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t chunk = std::min(kDirectBytes, bytes - done);
    std::uint32_t sum_then = sum;
    for (std::size_t copied = 0; copied < chunk; copied += kChunkBytes) {
      const std::size_t piece = std::min(kChunkBytes, chunk - copied);
      std::memcpy(blocks_.get() + copied, from + done + copied, piece);
      sum_then = crc32c(sum_then, blocks_.get() + copied, piece);
    }
    for (std::size_t written = 0; written < chunk;) {
      const ssize_t count =
          ::pwrite(direct_, blocks_.get() + written, chunk - written, static_cast<off_t>(at + done + written));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0 || static_cast<std::size_t>(count) % kBlockBytes != 0) {
        stop_direct();
        return done;
      }
      written += static_cast<std::size_t>(count);
    }
    sum = sum_then;
    done += chunk;
  }
  return bytes;
}

std::uint32_t RangeFile::write_cached(std::uint64_t at, const char* from, std::size_t bytes, std::uint32_t before) {
  std::size_t to_sum = 0, begun = 0;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t chunk = std::min(kChunkBytes, bytes - done);
    if (done == to_sum) {
      before = crc32c(before, from + done, chunk);
      to_sum = done + chunk;
    }
    const ssize_t written = ::pwrite(descriptor_, from + done, to_sum - done, static_cast<off_t>(at + done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) failed("written");
    done += static_cast<std::size_t>(written);
    if (done - begun >= kWritebackBytes) {
      ::sync_file_range(descriptor_, static_cast<off_t>(at + begun), static_cast<off_t>(done - begun),
                        SYNC_FILE_RANGE_WRITE);
      begun = done;
    }
  }
  return before;
}

std::size_t RangeFile::read_some(std::uint64_t at, char* to, std::size_t bytes) {
  ssize_t got = 0;
  do got = ::pread(descriptor_, to, bytes, static_cast<off_t>(at));
  while (got < 0 && errno == EINTR);
  if (got < 0) failed("read");
  if (got == 0) refuse("ends too early: it was cut");
  return static_cast<std::size_t>(got);
}

char* RangeFile::cached() {
  if (!cached_) cached_ = std::make_unique_for_overwrite<char[]>(kCachedBytes);
  return cached_.get();
}

// The kernel's copy of a large range goes past the CPU's caches, and a sum would wait for memory once more. A copy of a
// small one stays there for the second, which makes the sum: both together take no longer than the first alone.
std::uint32_t RangeFile::read(std::uint64_t at, void* data, std::size_t bytes, std::uint32_t before) {
  auto* to = static_cast<char*>(data);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t got = read_some(at + done, cached(), std::min(kCachedBytes, bytes - done));
    before = crc32c_copied(before, to + done, cached(), got);
    done += got;
  }
  return before;
}

void RangeFile::read_unsummed(std::uint64_t at, void* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) done += read_some(at + done, static_cast<char*>(data) + done, bytes - done);
}

std::uint32_t RangeFile::sum(std::uint64_t at, std::uint64_t bytes, std::uint32_t before) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::size_t got = read_some(at + done, cached(), std::min<std::uint64_t>(kCachedBytes, bytes - done));
    before = crc32c(before, cached(), got);
    done += got;
  }
  return before;
}

void RangeFile::sync() {
  if (::fsync(descriptor_) != 0) failed("brought to the disk");
}

void RangeFile::close() {
  stop_direct();
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) failed("written");
}

std::string read_whole(const std::string& path, std::uint64_t most) {
  RangeFile file(path, RangeFile::Use::read);
  const std::uint64_t bytes = file.bytes();
  if (bytes > most) file.refuse(fmt::format("has {} bytes, more than the {} that are allowed", bytes, most));
  std::string text(bytes, '\0');
  file.read_unsummed(0, text.data(), text.size());
  return text;
}

void write_whole(const std::string& path, const std::string& text, bool sync) {
  RangeFile file(path, RangeFile::Use::create);
  file.write(0, text.data(), text.size());
  if (sync) file.sync();
  file.close();
}

void sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = folder >= 0 && (::fsync(folder) == 0 || errno == EINVAL);
  const int why = errno;
  if (folder >= 0) ::close(folder);
  if (!synced) throw Refused(fmt::format("{} cannot be brought to the disk: {}", path, std::strerror(why)));
}

}  // namespace dtrain::checkpoint
