#pragma once
// How a store is served: where it listens, to whom, within which limits, and what it reports.
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store/store_limits.h"
#include "rendezvous/store_relay/store_remote.h"

namespace dtrain {

struct StoreOptions {
  // A numeric IPv4 or IPv6 address of this host.
  std::string address = "127.0.0.1";
  // 0: any free port.
  std::uint16_t port = 0;
  // Serve only processes of this user on this host. Exactly this one: root's processes are refused too unless this is
  // 0. None: whoever can connect.
  std::optional<uid_t> allowed_uid{};
  StoreHostLimits limits{};
  // One line for each connection that is refused or closed for a fault, at most ten in ten seconds. Called on the
  // store's thread: return quickly and do not call back. May be empty.
  std::function<void(std::string_view line)> log{};
  // If not empty: connections whose first byte is adopt_byte are no clients of the store and are handed over, with
  // what was read from them. Called on the store's thread, as `log`. Their owner has been checked.
  std::function<void(UniqueFd socket, std::string received)> adopt{};
  char adopt_byte = 0;
  // If not empty: until the first round begins there are no clients, and one that greets is closed and reported here.
  // Called on the store's thread, as `log`.
  std::function<void()> early{};
  // Forget every key when the last client has left.
  bool forgets = false;
  // An edge: the store is elsewhere. None: it is here.
  std::optional<StoreRemote> remote{};
};

}  // namespace dtrain
