#pragma once
// A job of several nodes that this agent hosts: the rounds, the workers' store, and the port that all nodes know. On
// one host the store has that port, and hands over the agents' connections. Across hosts an OuterListener has the port,
// for encrypted links; the store is behind it, and serves this node's workers on loopback.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/finding/host_finder.h"
#include "launcher/job/job_spec.h"
#include "rendezvous/agent_link/outer_listener.h"
#include "rendezvous/agent_link/round_host.h"
#include "rendezvous/base/result.h"
#include "rendezvous/net/peer_uid.h"
#include "rendezvous/store_server/store_host.h"

namespace dtrain::launcher {

// The settings of this node that its host compares with its own.
NodeTimes node_times(const NodesSpec& nodes);

class HostedJob {
 public:
  // On the agent's event loop. `self` is this node, as Join says it. `say` outlives the job.
  static Result<std::unique_ptr<HostedJob>> open(boost::asio::io_context& io, const JobSpec& spec, const NodeInfo& self,
                                                 HostFinder::Here here, const Say& say);
  ~HostedJob();
  HostedJob(const HostedJob&) = delete;
  HostedJob& operator=(const HostedJob&) = delete;

  std::uint16_t port() const { return port_; }
  StoreHost& store() { return *store_; }
  // Across hosts: this node's own link to the rounds, which does not go through the port.
  Result<UniqueFd> own_connection();
  // Ends the job if it has not ended, and waits until the others have heard of the end and left, at most a second, or
  // until then.
  void close(const Verdict& verdict, std::optional<MonoTime> until);

 private:
  HostedJob(boost::asio::io_context& io, const JobSpec& spec, RoundSettings settings, const HostFinder::Here& here,
            const Say& say);
  Result<void> serve(UniqueFd listener, const JobSpec& spec);
  Result<void> serve_here(UniqueFd listener, StoreHost::Options options);
  void vouch(const TcpEnds& ends, VouchDesk::Answer answer);
  Result<void> start_store(UniqueFd listener, StoreHost::Options options);

  boost::asio::io_context& io_;
  const Say& say_;
  std::uint16_t port_;
  RoundHost rounds_;
  std::optional<PeerUid> peer_uid_;       // --master-addr real
  std::unique_ptr<OuterListener> outer_;  // across hosts
  std::unique_ptr<StoreHost> store_;      // the last member: its thread hands over to the rounds
};

}  // namespace dtrain::launcher
