// See arena_copy.h.
#include "strategies/comm/memory/arena_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "strategies/comm/memory/page.h"

namespace dtrain {
namespace {

// The next byte at `from` or later that has memory (SEEK_DATA) or has none (SEEK_HOLE); `end` if there is no such byte
// before `end`.
std::size_t next(int fd, std::size_t from, int what, std::size_t end) {
  const off_t found = ::lseek(fd, static_cast<off_t>(from), what);
  return found < 0 ? end : std::min(static_cast<std::size_t>(found), end);
}

}  // namespace

bool ArenaCopy::resize(std::size_t bytes) {
  void* const made = base_ == nullptr
                         ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                         : ::mremap(base_, bytes_, bytes, MREMAP_MAYMOVE);
  if (made == MAP_FAILED) return false;
  base_ = static_cast<std::byte*>(made);
  bytes_ = bytes;
  return true;
}

bool ArenaCopy::update(const SharedMemory& memory, std::size_t bytes) {
  const std::size_t known = std::min(bytes_, bytes);  // the pages that follow are new
  if (bytes != bytes_ && !resize(bytes)) {
    drop();
    return false;
  }
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t data = next(memory.fd(), at, SEEK_DATA, bytes);
    if (data > at) ::madvise(base_ + at, data - at, MADV_DONTNEED);  // the copy's pages become zeros too
    const std::size_t end = next(memory.fd(), data, SEEK_HOLE, bytes);
    for (std::size_t page = data; page < end; page += kPage) {
      if (page >= known || std::memcmp(base_ + page, memory.base() + page, kPage) != 0)
        std::memcpy(base_ + page, memory.base() + page, kPage);
    }
    at = end;
  }
  return true;
}

void ArenaCopy::take_place_of(SharedMemory& memory, std::size_t bytes) {
  std::byte* const place = memory.base();
  ::mmap(place + bytes, memory.bytes() - bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
  const bool taken = base_ != nullptr && ::mremap(base_, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place;
  if (!taken &&
      ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, memory.fd(), 0) != place)
    ::mmap(place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  base_ = nullptr;
  bytes_ = 0;
  memory.close_fd();
}

void ArenaCopy::drop() noexcept {
  if (base_ != nullptr) ::munmap(base_, bytes_);
  base_ = nullptr;
  bytes_ = 0;
}

}  // namespace dtrain
