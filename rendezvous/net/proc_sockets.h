#pragma once
// What /proc tells of sockets and of those who hold them.
#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/tcp_ends.h"

namespace dtrain {

struct SocketOwner {
  uid_t uid = 0;
  std::uint64_t inode = 0;
};

// The connected TCP socket at the `own` end, by /proc/net. Errors: as PeerUid::lookup(); ENOSYS: there is no
// such file.
Result<SocketOwner> owner_by_proc(const TcpEnds& ends);

// The inodes of the sockets that listen at the port.
std::set<std::uint64_t> listeners_at(std::uint16_t port);

// A process that holds one of these sockets, of those that this process may look into: its pid; 0: none.
pid_t holder_of(const std::set<std::uint64_t>& inodes);

}  // namespace dtrain
