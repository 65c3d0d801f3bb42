#include "data/node/node_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>
#include <utility>

#include "data/base/random_bits.h"

namespace dtrain::data {
namespace {

// The first word of a question, and so the version of all that follows.
constexpr std::uint32_t question_mark = 0x64744e31;

struct Question {
  std::uint32_t mark, rank;
};

struct Address {
  sockaddr_un bytes{};
  socklen_t size;
};

// A name in the abstract namespace: it begins with a 0.
Address address_of(const NodeName& name) {
  Address address{};
  address.bytes.sun_family = AF_UNIX;
  std::memcpy(address.bytes.sun_path + 1, name.bytes().data(), name.bytes().size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.bytes().size());
  return address;
}

bool has_no_descriptors(int error) { return error == EMFILE || error == ENFILE; }

[[noreturn]] void throw_no_descriptor(int error) {
  throw std::system_error(error, std::generic_category(),
                          "its process has no descriptor left to share the reader of its node; raise `ulimit -n`");
}

OwnedFd new_socket() {
  OwnedFd made(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made && has_no_descriptors(errno)) throw_no_descriptor(errno);
  return made;
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

}  // namespace

NodeName::NodeName(const std::string& text) {
  std::uint64_t high = 1, low = 2;
  for (const char letter : text) {
    high = mixed(high + static_cast<unsigned char>(letter) + 1);
    low = mixed((low ^ static_cast<unsigned char>(letter)) * 0x9E3779B97F4A7C15ULL + 3);
  }
  const std::string name = fmt::format("dtrain-rows-{:016x}{:016x}", high, low);
  std::fill(std::begin(bytes_), std::end(bytes_), '\0');
  name.copy(bytes_, sizeof bytes_);
}

NodeSocket::~NodeSocket() {
  if (socket_) shutdown(get(), SHUT_RDWR);
}

std::optional<NodeLink> NodeLink::connect(const NodeName& name) {
  OwnedFd socket = new_socket();
  const Address address = address_of(name);
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0) {
    return std::nullopt;
  }
  if (!is_same_user(socket.get())) return std::nullopt;
  return NodeLink(std::move(socket));
}

bool NodeLink::ask(int rank) {
  const Question question{question_mark, static_cast<std::uint32_t>(rank)};
  return send(fd(), &question, sizeof question, MSG_NOSIGNAL) == sizeof question;
}

std::optional<int> NodeLink::asked() {
  Question question{};
  if (recv(fd(), &question, sizeof question, 0) != sizeof question || question.mark != question_mark) {
    return std::nullopt;
  }
  return static_cast<int>(question.rank);
}

bool NodeLink::answer(const NodeAnswer& answer, int memory) {
  NodeAnswer copy = answer;
  iovec part{&copy, sizeof copy};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof memory)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (answer.kind == NodeAnswer::welcome) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof memory);
    std::memcpy(CMSG_DATA(header), &memory, sizeof memory);
  }
  return sendmsg(fd(), &message, MSG_NOSIGNAL) == sizeof copy;
}

std::optional<NodeLink::Received> NodeLink::receive(std::chrono::milliseconds limit, const StopBell& stop) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (pollfd wait[] = {{fd(), POLLIN, 0}, {stop.event(), POLLIN, 0}}; !stop;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return std::nullopt;
    if (poll(wait, 2, static_cast<int>(std::min<std::int64_t>(left.count(), 100))) > 0 && wait[0].revents != 0) break;
  }
  if (stop) return std::nullopt;
  Received received{{}, OwnedFd()};
  iovec part{&received.answer, sizeof received.answer};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const auto size = recvmsg(fd(), &message, MSG_CMSG_CLOEXEC);
  if (size >= 0 && (message.msg_flags & MSG_CTRUNC) != 0) throw_no_descriptor(EMFILE);  // for the memory
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int memory = -1;
    std::memcpy(&memory, CMSG_DATA(header), sizeof memory);
    received.memory = OwnedFd(memory);
  }
  if (size != sizeof received.answer) return std::nullopt;
  if (received.answer.kind == NodeAnswer::welcome && !received.memory) return std::nullopt;
  return received;
}

void NodeLink::ring() {
  // If there is no room for it, there are rings that the other end has not taken yet.
  [[maybe_unused]] const auto sent = send(fd(), "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool NodeLink::answered_bells() {
  for (char bell[8];;) {
    const auto size = recv(fd(), bell, sizeof bell, MSG_DONTWAIT);
    if (size > 0) continue;
    return size < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

std::optional<NodeDoor> NodeDoor::open(const NodeName& name) {
  OwnedFd socket = new_socket();
  const Address address = address_of(name);
  if (!socket || bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return std::nullopt;
  }
  return NodeDoor(std::move(socket));
}

NodeDoor::~NodeDoor() {
  if (fd() < 0) return;
  shutdown(fd(), SHUT_RDWR);
  while (accepted()) continue;
}

OwnedFd NodeDoor::accepted() { return OwnedFd(accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)); }

std::optional<NodeLink> NodeDoor::next() {
  for (;;) {
    if (!reserve_) reserve_ = OwnedFd(fcntl(fd(), F_DUPFD_CLOEXEC, 0));
    OwnedFd socket = accepted();
    if (!socket && has_no_descriptors(errno)) {
      reserve_ = OwnedFd();
      socket = accepted();
      if (!socket && has_no_descriptors(errno)) throw_no_descriptor(errno);
    }
    if (!socket) return std::nullopt;
    if (is_same_user(socket.get())) return NodeLink(std::move(socket));
  }
}

}  // namespace dtrain::data
