#pragma once
// Which user is at the other end of a loopback TCP connection. SO_PEERCRED knows only Unix sockets; for TCP the kernel
// answers the same question through NETLINK_SOCK_DIAG, without privileges, in some microseconds. Sandboxes that have no
// such sockets (a seccomp filter, gVisor) leave /proc/net/tcp, which says the same and takes longer.
//
// In a user namespace that does not know all users (overflow_uid.h) a uid may be that of anybody. Then the peer is this
// user if one of the processes that this one may look into holds the socket.
#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "rendezvous/base/result.h"
#include "rendezvous/base/tcp_ends.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/overflow_uid.h"
#include "rendezvous/net/proc_sockets.h"

namespace dtrain {

// Of the peer of `fd`, a connected TCP socket.
Result<TcpEnds> ends_of_peer(int fd);

class PeerUid {
 public:
  // Errors: neither sock_diag nor /proc/net in this kernel or sandbox.
  static Result<PeerUid> open();

  // The uid that created the socket connected to `fd` (an accepted IPv4 or IPv6 TCP socket) from this host.
  // Errors: the peer is on another host, is gone (ENOENT), or has begun to close (ENOTCONN): a socket that its process
  // has closed no longer has an owner (the kernel reports uid 0 for it), so only a connection that is fully established
  // is vouched for. It may be anybody's (EACCES).
  // Never blocks for more than a second.
  Result<uid_t> lookup(int fd);
  // The uid that created the socket at the `own` end, on this host. The same errors; addresses that are none.
  Result<uid_t> lookup(const TcpEnds& ends);
  // By sock_diag; if not, by /proc/net.
  bool quick() const { return bool(netlink_); }

 private:
  struct Request;
  Result<SocketOwner> ask(Request& request);
  Result<void> try_out();
  Result<uid_t> user_of(const Result<SocketOwner>& owner) const;

  explicit PeerUid(UniqueFd netlink) : netlink_(std::move(netlink)) {}

  UniqueFd netlink_;
  std::optional<uid_t> anybody_ = uid_of_anybody();
  std::uint32_t sequence_ = 0;
};

}  // namespace dtrain
