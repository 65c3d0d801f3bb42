#pragma once
// The worker store on a socket: torch's TCPStore protocol, served to the workers of this node. In process, on one
// thread of its own; the agent never waits for it.
//
//   auto store = StoreHost::start({.allowed_uid = geteuid()});
//   if (!store) return store.error();
//   environment["MASTER_PORT"] = std::to_string((*store)->port());
//
// It is listening before start() returns, so there is no race for the port. While nothing is sent it uses no CPU and
// has no timer running, however many workers wait for keys.
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store_limits.h"

namespace dtrain {

class StoreHost {
 public:
  struct Options {
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
  };

  // Bind, listen and serve. Errors: the address or port cannot be used, or the owner of a connection cannot be found
  // out on this system although allowed_uid asks for it.
  static Result<std::unique_ptr<StoreHost>> start(Options options);
  // The same with a socket that listens already; address and port of the options are not used.
  static Result<std::unique_ptr<StoreHost>> start(UniqueFd listener, Options options);

  // Close all connections and the port, and join the thread.
  ~StoreHost();
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  std::uint16_t port() const { return port_; }
  // Forget every key and close every connection: a fresh store at the same port. When it returns it is done. Not from
  // within `log` or `adopt`.
  void renew();
  // A recent snapshot. Any thread.
  StoreStats stats() const;

 private:
  struct Impl;
  explicit StoreHost(std::unique_ptr<Impl> impl, std::uint16_t port);

  std::unique_ptr<Impl> impl_;
  std::uint16_t port_;
};

}  // namespace dtrain
