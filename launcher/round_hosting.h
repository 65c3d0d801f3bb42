#pragma once
// What the agent that hosts a job of several nodes has and the others have not: the rounds, the workers' store, and the
// port that all nodes know. On one host the store has that port, and hands over the agents' connections. Across hosts
// the port is that of the encrypted links; the store is behind it, and serves this node's workers on loopback.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/host_finder.h"
#include "launcher/job_spec.h"
#include "rendezvous/base/result.h"
#include "rendezvous/outer_listener.h"
#include "rendezvous/peer_uid.h"
#include "rendezvous/round_host.h"
#include "rendezvous/store_host.h"

namespace dtrain::launcher {

// What a host is told of this node's settings, and compares.
NodeTimes node_times(const NodesSpec& nodes);

class RoundHosting {
 public:
  using Say = std::function<void(const std::string&)>;

  // On the agent's event loop.
  static Result<std::unique_ptr<RoundHosting>> open(boost::asio::io_context& io, const JobSpec& spec,
                                                    const std::string& agent_id, const LastPlace& last,
                                                    HostFinder::Here here, const Say& say);
  ~RoundHosting();
  RoundHosting(const RoundHosting&) = delete;
  RoundHosting& operator=(const RoundHosting&) = delete;

  std::uint16_t port() const { return port_; }
  StoreHost& store() { return *store_; }
  // Across hosts: this node's own link to the rounds, not through the port.
  Result<UniqueFd> own_connection();
  // End the job if it has not ended, and wait until the others have heard of it, at most a second.
  void close(const Verdict& verdict);

 private:
  RoundHosting(boost::asio::io_context& io, const JobSpec& spec, RoundSettings settings, const HostFinder::Here& here);
  Result<void> serve(UniqueFd listener, const JobSpec& spec, const Say& say);
  void vouch(const TcpEnds& ends, VouchDesk::Answer answer);
  Result<void> start_store(UniqueFd listener, StoreHost::Options options);

  boost::asio::io_context& io_;
  std::uint16_t port_;
  RoundHost rounds_;
  std::optional<PeerUid> peer_uid_;       // --master-addr real
  std::unique_ptr<OuterListener> outer_;  // across hosts
  std::unique_ptr<StoreHost> store_;      // last: its thread hands over to the rounds
};

}  // namespace dtrain::launcher
