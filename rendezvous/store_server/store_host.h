#pragma once
// The worker store on a socket: torch's TCPStore protocol, served to the workers of this node. In process, on one
// thread of its own; the agent never waits for it. One node of a job has the store; the others are edges: they serve
// their workers in the same way and forward the requests over one link each (StoreOptions::remote, adopt_link).
//
//   auto store = StoreHost::start({.allowed_uid = geteuid()});
//   if (!store) return store.error();
//   environment["MASTER_PORT"] = std::to_string((*store)->port());
//
// It is listening before start() returns, so there is no race for the port. While nothing is sent it uses no CPU and
// has no timer running, however many workers wait for keys.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store/store_limits.h"
#include "rendezvous/store_server/store_options.h"
#include "rendezvous/tls/tls_session.h"

namespace dtrain {

class StoreHost {
 public:
  using Options = StoreOptions;

  // Bind, listen and serve. Errors: the address or port cannot be used, or the owner of a connection cannot be found
  // out on this system although allowed_uid asks for it.
  static Result<std::unique_ptr<StoreHost>> start(Options options);
  // The same with a socket that listens already; address and port of the options are not used.
  static Result<std::unique_ptr<StoreHost>> start(UniqueFd listener, Options options);
  // The same without a port: its clients come by adopt_link() alone.
  static Result<std::unique_ptr<StoreHost>> start_without_port(Options options);

  // Close all connections and the port, and join the thread.
  ~StoreHost();
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

  std::uint16_t port() const { return port_; }  // 0: none
  // Forget every key and close every connection and link: a fresh store at the same port, that takes no links. An edge
  // turns its clients away. When it returns it is done. Not from within a callback.
  void renew();
  // The same, and from now on the links of this round are welcome; an edge connects to its host. Clients may come at
  // once: they are answered when the link is up. It does not wait for that.
  void begin_round(std::uint64_t round);
  // Not at an edge: a connection of another node that may have a link (with TLS: established, its name's role store).
  // `received`: what was read from it so far, decrypted; a link begins with kStoreLinkGreeting. Any thread, from
  // `adopt` too.
  void adopt_link(UniqueFd socket, std::string received, std::optional<TlsSession> tls = {});
  // A client that came elsewhere; nothing was read from it, and its owner has been checked. Any thread.
  void adopt_client(UniqueFd socket);
  // Sets a key, as a client would; at an edge in the host's store. Any thread. It does not wait. Errors: no
  // descriptors.
  Result<void> set(std::string_view key, std::string_view value);
  // A recent snapshot. Any thread.
  StoreStats stats() const;

 private:
  struct Impl;
  void begin(std::optional<std::uint64_t> round);
  static Result<std::unique_ptr<StoreHost>> make(UniqueFd listener, std::uint16_t port, Options options);
  explicit StoreHost(std::unique_ptr<Impl> impl, std::uint16_t port);

  std::unique_ptr<Impl> impl_;
  std::uint16_t port_;
};

}  // namespace dtrain
