#pragma once
// A worker store on an event loop: its front, and behind it the store with the links of other nodes, or at an edge the
// relay. StoreHost gives it a thread of its own; all of it runs on that one.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/peer_uid.h"
#include "rendezvous/store_backend.h"
#include "rendezvous/store_host.h"
#include "rendezvous/store_links.h"
#include "rendezvous/store_loop.h"
#include "rendezvous/store_relay.h"

namespace dtrain {

class StoreService {
 public:
  // `store`: what the front speaks to; null at an edge (options.remote). The options must live as long.
  StoreService(boost::asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
               const StoreHost::Options& options, std::unique_ptr<StoreBackend> store);

  // See StoreHost::begin_round; none: StoreHost::renew.
  void begin_round(std::optional<std::uint64_t> round);
  StoreLoop& front() { return front_; }
  const StoreLoop& front() const { return front_; }
  // Null at an edge.
  StoreLinks* links() { return links_ ? &*links_ : nullptr; }

 private:
  void link_lost();

  const StoreHost::Options& options_;
  const std::unique_ptr<StoreBackend> store_;
  std::optional<StoreRelay> relay_;
  StoreLoop front_;
  std::optional<StoreLinks> links_;
};

}  // namespace dtrain
