#pragma once
// Which user is at the other end of a loopback TCP connection. SO_PEERCRED knows only Unix sockets; for TCP the kernel
// answers the same question through NETLINK_SOCK_DIAG, without privileges, in some microseconds.
#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/tcp_ends.h"

namespace dtrain {

// Of the peer of `fd`, a connected TCP socket.
Result<TcpEnds> ends_of_peer(int fd);

class PeerUid {
 public:
  // Open the netlink socket. Errors: no sock_diag in this kernel or sandbox.
  static Result<PeerUid> open();

  // The uid that created the socket connected to `fd` (an accepted IPv4 or IPv6 TCP socket) from this host.
  // Errors: the peer is on another host, is gone (ENOENT), or has begun to close (ENOTCONN): a socket that its process
  // has closed no longer has an owner (the kernel reports uid 0 for it), so only a connection that is fully established
  // is vouched for.
  // Never blocks for more than a second.
  Result<uid_t> lookup(int fd);
  // The uid that created the socket at the `own` end, on this host. The same errors; addresses that are none.
  Result<uid_t> lookup(const TcpEnds& ends);

 private:
  struct Request;
  Result<uid_t> ask(Request& request);

  explicit PeerUid(UniqueFd netlink) : netlink_(std::move(netlink)) {}

  UniqueFd netlink_;
  std::uint32_t sequence_ = 0;
};

}  // namespace dtrain
