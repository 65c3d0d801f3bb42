#pragma once
// A worker store on an event loop: its clients, and behind them the store with the links of other nodes, or at an edge
// the relay. StoreHost gives it a thread of its own; all of it runs on that one.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "rendezvous/base/report_limit.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/peer_uid.h"
#include "rendezvous/store/store_backend.h"
#include "rendezvous/store/store_switch.h"
#include "rendezvous/store_relay/store_links.h"
#include "rendezvous/store_relay/store_relay.h"
#include "rendezvous/store_server/store_clients.h"
#include "rendezvous/store_server/store_options.h"

namespace dtrain {

class StoreService {
 public:
  // `store`: what the clients speak to; null at an edge (options.remote). The options must live as long.
  StoreService(boost::asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
               const StoreOptions& options, std::unique_ptr<StoreBackend> store);

  // See StoreHost::begin_round; none: StoreHost::renew.
  void begin_round(std::optional<std::uint64_t> round);
  StoreClients& clients() { return clients_; }
  // Null at an edge.
  StoreLinks* links() { return links_ ? &*links_ : nullptr; }
  // As of the last turn. Any thread.
  StoreStats stats() const;

 private:
  StoreOutlet::Callbacks callbacks();
  void report(std::string_view line);
  void publish();
  void link_lost();

  const StoreOptions& options_;
  const std::unique_ptr<StoreBackend> store_;
  std::optional<StoreRelay> relay_;
  StoreBackend& backend_;  // one of the two
  StoreSwitch outlets_;
  StoreClients clients_;
  std::optional<StoreLinks> links_;

  ReportLimit reports_{10};
  mutable std::mutex published_mutex_;
  StoreStats published_;
};

}  // namespace dtrain
