#pragma once
// Memory that processes of one user on one host share: a memfd and its mapping. It has no name, so whatever dies and
// however, the kernel frees it with the last process that maps it. Peers open it through /proc/<pid>/fd/<fd>, which
// works for processes of one user in one PID namespace and needs no socket and no server. Errors are std::system_error.
#include <cstddef>
#include <cstdint>
#include <string>

namespace dtrain {

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  // Zeros, of this size for ever: a peer that shrank the file would kill the others with SIGBUS. `name`: in /proc.
  static SharedMemory create(const char* name, std::size_t bytes);
  // All of what process `pid`, a number in /proc, has as descriptor `fd`. Nothing is mapped of an empty file.
  static SharedMemory open(int pid, int fd);
  // What open() opens, for messages.
  static std::string path(int pid, int fd);

  // The descriptor for peers to open; -1 after close_fd. The mapping does not need it.
  int fd() const { return fd_; }
  void close_fd();
  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void map(std::size_t bytes);
  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// Which memory it is: random, so that a peer that opened the wrong one does not find it there.
std::uint64_t random_token();

}  // namespace dtrain
