#pragma once
// Where the store of the job is, for a node that serves its workers from another node's store.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/tls/tls_session.h"

namespace dtrain {

struct StoreRemote {
  // A numeric address, and the port where the host takes links.
  std::string address;
  std::uint16_t port = 0;
  // From an attempt to make the link until the host has welcomed it. A host that does not answer, or that closes
  // the connection, may be busy: it is asked again.
  std::chrono::milliseconds timeout{5000};
  int attempts = 6;
  // A client's session for this round's link. Empty: the link is in clear.
  std::function<Result<TlsSession>(std::uint64_t round)> secure{};
  // Begins to connect: a non-blocking socket. Empty: by TCP to the address and port.
  std::function<Result<UniqueFd>()> connect{};
  // A round's link cannot be made or is lost, and with it every connection: once a round, with one line for the user.
  // Called on the store's thread: return quickly and do not call back.
  std::function<void(std::uint64_t round, const std::string& reason)> lost{};
};

}  // namespace dtrain
