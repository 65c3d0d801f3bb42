// See shared_memory.h.
#include "strategies/comm/base/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "strategies/comm/base/forked_children.h"

namespace dtrain {
namespace {

constexpr unsigned kNoExec = 0x0008;  // MFD_NOEXEC_SEAL, which glibc 2.36 has not

[[noreturn]] void throw_errno(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (base_ != nullptr) {
    no_longer_hide(base_);
    ::munmap(base_, bytes_);
  }
  close_fd();
}

SharedMemory SharedMemory::create(const char* name, std::size_t bytes) {
  SharedMemory memory;
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Where vm.memfd_noexec is 2 no other is allowed; Linux knows the flag since 6.3.
  memory.fd_ = ::memfd_create(name, kFlags | kNoExec);
  if (memory.fd_ < 0 && errno == EINVAL) memory.fd_ = ::memfd_create(name, kFlags);
  if (memory.fd_ < 0) throw_errno("memfd_create for shared memory");
  if (::ftruncate(memory.fd_, static_cast<off_t>(bytes)) != 0)
    throw_errno(fmt::format("shared memory of {} bytes", bytes));
  if (::fcntl(memory.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_errno("sealing shared memory");
  memory.map(bytes);
  return memory;
}

SharedMemory SharedMemory::open(int pid, int fd) {
  const std::string file = path(pid, fd);
  SharedMemory memory;
  memory.fd_ = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (memory.fd_ < 0) throw_errno(file);
  struct stat status {};
  if (::fstat(memory.fd_, &status) != 0) throw_errno(file);
  if (status.st_size > 0) memory.map(static_cast<std::size_t>(status.st_size));
  return memory;
}

std::string SharedMemory::path(int pid, int fd) { return fmt::format("/proc/{}/fd/{}", pid, fd); }

void SharedMemory::map(std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (base == MAP_FAILED) throw_errno(fmt::format("mapping {} bytes of shared memory", bytes));
  base_ = static_cast<std::byte*>(base);
  bytes_ = bytes;
  hide_from_children(base_, bytes_);
}

void SharedMemory::close_fd() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::uint64_t random_token() {
  std::uint64_t token = 0;
  if (::getrandom(&token, sizeof token, 0) != sizeof token) throw_errno("getrandom");
  return token;
}

}  // namespace dtrain
