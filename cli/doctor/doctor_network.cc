// `dtrain doctor`: loopback and torchrun's ports.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "cli/doctor/doctor.h"
#include "cli/machine/machine_facts.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/overflow_uid.h"
#include "rendezvous/net/peer_uid.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;

bool free_port(int port) {
  UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int yes = 1;
  setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return server && bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         listen(server.get(), 1) == 0;
}

}  // namespace

PortUse port_use(int port) {
  if (free_port(port)) return {};
  const std::string holder = who_listens(port);
  return {false, holder.empty() ? "something that does not listen" : holder};
}

// Bind, listen and connect, as workers and store do.
Findings check_loopback() {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  bool works = server && client && bind(server.get(), generic, size) == 0 && listen(server.get(), 1) == 0 &&
               getsockname(server.get(), generic, &size) == 0 && connect(client.get(), generic, size) == 0;
  if (works) return {{Level::ok, "loopback", "127.0.0.1 accepts connections", ""}};
  return {{Level::fail, "loopback", system_error("127.0.0.1", errno).message,
           "workers reach the agent's store there: ip link set lo up"}};
}

// The store lets in this user's processes alone, so it has to know whose a connection is.
Findings check_owners() {
  constexpr const char* kWhat = "owners of connections";
  const auto peer_uid = PeerUid::open();
  if (!peer_uid)
    return {
        {Level::fail, kWhat, peer_uid.error().message,
         "allow sockets of NETLINK_SOCK_DIAG in the sandbox (of a container: its seccomp profile), or mount /proc"}};
  if (uid_of_anybody() == ::geteuid())
    return {{Level::warn, kWhat, fmt::format("user {} may stand for any user in this user namespace", ::geteuid()),
             "dtrain looks each connection up in /proc, which takes longer; map your user in the namespace"}};
  if (!peer_uid->quick())
    return {{Level::warn, kWhat, "from /proc/net/tcp: there is no NETLINK_SOCK_DIAG",
             "jobs run; where thousands of connections are made at once, allow such sockets in the sandbox"}};
  return {{Level::ok, kWhat, "by NETLINK_SOCK_DIAG", ""}};
}

Findings check_ports() {
  constexpr int kC10d = 29400, kStatic = 29500;  // torchrun's defaults for jobs of several nodes
  Findings findings;
  for (int port : {kC10d, kStatic}) {
    std::string what = fmt::format("port {}", port);
    const PortUse use = port_use(port);
    if (use.is_free) {
      findings.push_back({Level::ok, what, "free", ""});
      continue;
    }
    findings.push_back(
        {Level::warn, what, "taken by " + use.holder,
         "only jobs that ask for this port cannot start: give them another one with --rdzv-endpoint or --master-port"});
  }
  return findings;
}

}  // namespace dtrain::cli
