// One exact-match inet_diag request for the peer's socket: its source is our peer address, its destination ours.
#include "rendezvous/net/peer_uid.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dtrain {
namespace {

// From the kernel's tcp_states.h; <netinet/tcp.h> and <linux/tcp.h> cannot be included together.
constexpr std::uint8_t kTcpEstablished = 1;
constexpr std::uint32_t kAllStates = 0xffffffff;

struct Endpoint {
  std::uint16_t port = 0;  // network order
  std::array<std::uint32_t, 4> address{};
};

// An IPv4 address mapped into IPv6 is looked up as IPv4, which finds sockets of either family.
Endpoint endpoint_of(const sockaddr_storage& address, std::uint8_t& family) {
  Endpoint endpoint;
  if (address.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address, sizeof(in));
    family = AF_INET;
    endpoint.port = in.sin_port;
    endpoint.address[0] = in.sin_addr.s_addr;
    return endpoint;
  }
  sockaddr_in6 in6{};
  std::memcpy(&in6, &address, sizeof(in6));
  endpoint.port = in6.sin6_port;
  std::memcpy(endpoint.address.data(), &in6.sin6_addr, sizeof(in6.sin6_addr));
  family = AF_INET6;
  if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
    family = AF_INET;
    endpoint.address = {endpoint.address[3], 0, 0, 0};
  }
  return endpoint;
}

Result<Endpoint> peer_of(int fd, std::uint8_t& family) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return system_error("getpeername", errno);
  return endpoint_of(address, family);
}

Result<Endpoint> local_of(int fd, std::uint8_t& family) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return system_error("getsockname", errno);
  return endpoint_of(address, family);
}

Result<Endpoint> endpoint_of(const std::string& address, int port, std::uint8_t& family) {
  Endpoint endpoint;
  endpoint.port = htons(static_cast<std::uint16_t>(port));
  family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  if (port < 0 || port > 65535 || ::inet_pton(family, address.c_str(), endpoint.address.data()) != 1)
    return Error{ErrorKind::system, "no numeric address and port"};
  return endpoint;
}

std::string text_of(const Endpoint& endpoint, std::uint8_t family) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family, endpoint.address.data(), text.data(), text.size());
  return text.data();
}

Result<SocketOwner> owner_in(const char* reply, std::size_t size) {
  nlmsghdr header{};
  if (size < sizeof(header)) return Error{ErrorKind::system, "sock_diag: short reply"};
  std::memcpy(&header, reply, sizeof(header));
  const char* body = reply + NLMSG_HDRLEN;
  const std::size_t body_size = size - NLMSG_HDRLEN;
  if (header.nlmsg_type == NLMSG_ERROR && body_size >= sizeof(nlmsgerr)) {
    nlmsgerr error{};
    std::memcpy(&error, body, sizeof(error));
    if (error.error == -ENOENT) return Error{ErrorKind::system, "peer is not on this host or is gone", ENOENT};
    return system_error("sock_diag", -error.error);
  }
  inet_diag_msg message{};
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || body_size < sizeof(message)) {
    return Error{ErrorKind::system, "sock_diag: unexpected reply"};
  }
  std::memcpy(&message, body, sizeof(message));
  if (message.idiag_state != kTcpEstablished || message.idiag_inode == 0) {
    return Error{ErrorKind::system, "peer has closed the connection", ENOTCONN};
  }
  return SocketOwner{static_cast<uid_t>(message.idiag_uid), message.idiag_inode};
}

}  // namespace

struct PeerUid::Request {
  nlmsghdr header;
  inet_diag_req_v2 body;

  Request(std::uint8_t family, const Endpoint& source, const Endpoint& destination) : header{}, body{} {
    header.nlmsg_len = sizeof(Request);
    header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
    header.nlmsg_flags = NLM_F_REQUEST;
    body.sdiag_family = family;
    body.sdiag_protocol = IPPROTO_TCP;
    body.idiag_states = kAllStates;
    body.id.idiag_sport = source.port;
    body.id.idiag_dport = destination.port;
    std::memcpy(body.id.idiag_src, source.address.data(), sizeof(body.id.idiag_src));
    std::memcpy(body.id.idiag_dst, destination.address.data(), sizeof(body.id.idiag_dst));
    body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
    body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  }
};

Result<TcpEnds> ends_of_peer(int fd) {
  std::uint8_t family = AF_UNSPEC;
  const auto other = local_of(fd, family);
  if (!other) return other.error();
  const auto own = peer_of(fd, family);
  if (!own) return own.error();
  return TcpEnds{text_of(*own, family), ntohs(own->port), text_of(*other, family), ntohs(other->port)};
}

Result<PeerUid> PeerUid::open() {
  UniqueFd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  const int refused = errno;  // what comes next reads files
  PeerUid made{std::move(netlink)};
  Result<void> works = made.netlink_ ? made.try_out() : system_error("NETLINK_SOCK_DIAG", refused);
  if (works) return made;
  made.netlink_.reset();
  if (const auto other = made.try_out(); !other)
    return Error{ErrorKind::system, fmt::format("cannot find out who owns a connection: {}; {}; give the sandbox one "
                                                "of the two: sockets of NETLINK_SOCK_DIAG, or /proc",
                                                works.error().message, other.error().message)};
  return made;
}

// A socket that listens is found and is not connected.
Result<void> PeerUid::try_out() {
  if (!netlink_) {
    const auto nobody = owner_by_proc({"127.0.0.1", 1, "127.0.0.1", 1});
    return nobody || nobody.error().errno_value != ENOSYS ? Result<void>() : Result<void>(nobody.error());
  }
  const timeval deadline{.tv_sec = 1, .tv_usec = 0};
  if (::setsockopt(netlink_.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof(deadline)) != 0)
    return system_error("SO_RCVTIMEO", errno);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::uint8_t family = AF_UNSPEC;
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), 1) != 0)
    return {};  // there is no loopback, and nothing to be asked about
  const auto end = local_of(listener.get(), family);
  if (!end) return end.error();
  Request request(family, *end, *end);
  const auto found = ask(request);
  return found || found.error().errno_value == ENOTCONN ? Result<void>() : Result<void>(found.error());
}

Result<uid_t> PeerUid::user_of(const Result<SocketOwner>& owner) const {
  if (!owner) return owner.error();
  if (anybody_ != owner->uid) return owner->uid;
  if (holder_of({owner->inode}) != 0) return ::geteuid();
  return Error{ErrorKind::system, "this user namespace does not know the user at its other end", EACCES};
}

Result<uid_t> PeerUid::lookup(int fd) {
  if (!netlink_) {
    const auto ends = ends_of_peer(fd);
    return ends ? user_of(owner_by_proc(*ends)) : Result<uid_t>(ends.error());
  }
  std::uint8_t family = AF_UNSPEC;
  const auto destination = local_of(fd, family);
  if (!destination) return destination.error();
  const auto source = peer_of(fd, family);
  if (!source) return source.error();
  Request request(family, *source, *destination);
  return user_of(ask(request));
}

Result<uid_t> PeerUid::lookup(const TcpEnds& ends) {
  std::uint8_t family = AF_UNSPEC;
  std::uint8_t other_family = AF_UNSPEC;
  const auto source = endpoint_of(ends.own, ends.own_port, family);
  if (!source) return source.error();
  const auto destination = endpoint_of(ends.other, ends.other_port, other_family);
  if (!destination) return destination.error();
  if (family != other_family) return Error{ErrorKind::system, "addresses of two families"};
  if (!netlink_) return user_of(owner_by_proc(ends));
  Request request(family, *source, *destination);
  return user_of(ask(request));
}

Result<SocketOwner> PeerUid::ask(Request& request) {
  request.header.nlmsg_seq = ++sequence_;
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (::sendto(netlink_.get(), &request, sizeof(Request), 0, reinterpret_cast<sockaddr*>(&kernel), sizeof(kernel)) < 0)
    return system_error("sock_diag: send", errno);
  // A reply to an earlier request that ran into the deadline is skipped by its sequence number.
  for (std::uint32_t attempt = 0; attempt < 16; ++attempt) {
    alignas(nlmsghdr) std::array<char, 4096> reply;
    sockaddr_nl from{};
    socklen_t from_size = sizeof(from);
    const ssize_t size =
        ::recvfrom(netlink_.get(), reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_size);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return system_error("sock_diag: receive", errno);
    nlmsghdr header{};
    if (static_cast<std::size_t>(size) < sizeof(header)) continue;
    std::memcpy(&header, reply.data(), sizeof(header));
    if (from.nl_pid != 0 || header.nlmsg_seq != sequence_) continue;
    return owner_in(reply.data(), static_cast<std::size_t>(size));
  }
  return Error{ErrorKind::system, "sock_diag: no reply to this request"};
}

}  // namespace dtrain
