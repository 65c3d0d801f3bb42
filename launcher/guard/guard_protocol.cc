#include "launcher/guard/guard_protocol.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "launcher/guard/memory_file.h"
#include "rendezvous/base/check.h"

namespace dtrain::launcher {

namespace {

struct PayloadHeader {
  uint32_t argc;
  uint32_t envc;
};

struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kMaxPassedFds)];
};

void append(std::string& bytes, const std::vector<std::string>& strings) {
  for (const auto& s : strings) bytes.append(s.c_str(), std::strlen(s.c_str()) + 1);
}

bool write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= size_t(n);
  }
  return true;
}
}  // namespace

ExitStatus exit_status_of(const GuardMessage& m) {
  if (m.op == GuardOp::not_started) return ExitStatus::not_started(SpawnStep(m.a), m.b);
  if (m.a == CLD_EXITED) return ExitStatus::exited(m.b);
  return ExitStatus::signaled(m.b, m.a == CLD_DUMPED);
}

std::string describe_failure(const GuardMessage& m) {
  const auto what = [&] {
    switch (GuardNeed(m.a)) {
      case GuardNeed::subreaper:
        return "become the parent of what workers leave behind (PR_SET_CHILD_SUBREAPER)";
      case GuardNeed::death_signal:
        return "be told of the agent's death (PR_SET_PDEATHSIG)";
      case GuardNeed::signals:
        return "be told of the death of workers (signalfd)";
      case GuardNeed::events:
        return "watch the agent and the workers (epoll)";
      case GuardNeed::waiting:
        return "wait for news of the workers (epoll_wait)";
    }
    return "go on";
  };
  return std::string("the guard cannot ") + what() + ": " + std::strerror(m.b);
}

int send_guard_message(int socket, const GuardMessage& message, const int* fds, size_t fd_count) {
  DT_CHECK(fd_count <= kMaxPassedFds, "the receiver has room for kMaxPassedFds");
  iovec io{const_cast<GuardMessage*>(&message), sizeof message};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  if (fd_count > 0) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
    std::memcpy(CMSG_DATA(c), fds, sizeof(int) * fd_count);
  }
  ssize_t n;
  do {
    n = ::sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? errno : 0;
}

Receive receive_guard_message(int socket, ReceivedGuardMessage& out) {
  iovec io{&out.message, sizeof out.message};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  ControlBuffer control{};
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  ssize_t n;
  // ECONNRESET says, once, that the other side has closed without reading all. What it has sent can still be read.
  do {
    n = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
  if (n < 0 && errno == EAGAIN) return Receive::again;
  if (n != ssize_t(sizeof out.message) || (header.msg_flags & MSG_TRUNC) != 0) return Receive::closed;
  for (auto& fd : out.fds) fd.reset();
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count && i < kMaxPassedFds; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      out.fds[i].reset(fd);
    }
  }
  return Receive::message;
}

Result<UniqueFd> write_exec_payload(const std::vector<std::string>& argv, const std::vector<std::string>& env) {
  const PayloadHeader header{uint32_t(argv.size()), uint32_t(env.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  append(bytes, argv);
  append(bytes, env);
  UniqueFd fd = make_memory_file("dtrain-exec");
  if (!fd) return system_error("cannot make room for a worker's arguments (memfd_create)", errno);
  if (!write_all(fd.get(), bytes.data(), bytes.size())) {
    return system_error(
        errno == EFBIG ? "cannot write a worker's arguments (see `ulimit -f`)" : "cannot write a worker's arguments",
        errno);
  }
  return fd;
}

ExecPayload::~ExecPayload() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

bool ExecPayload::map(int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0 || st.st_size < off_t(sizeof(PayloadHeader))) return false;
  size_ = size_t(st.st_size);
  void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return false;
  data_ = data;
  PayloadHeader header;
  std::memcpy(&header, data_, sizeof header);
  char* p = static_cast<char*>(data_) + sizeof header;
  char* const end = static_cast<char*>(data_) + size_;
  const auto take = [&](uint32_t count, std::vector<char*>& strings) {
    for (uint32_t i = 0; i < count; ++i) {
      char* zero = static_cast<char*>(std::memchr(p, 0, size_t(end - p)));
      if (zero == nullptr) return false;
      strings.push_back(p);
      p = zero + 1;
    }
    strings.push_back(nullptr);
    return true;
  };
  return take(header.argc, argv_) && take(header.envc, envp_) && header.argc > 0;
}

}  // namespace dtrain::launcher
