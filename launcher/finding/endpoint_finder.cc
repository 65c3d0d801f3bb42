#include "launcher/endpoint_finder.h"

#include <cerrno>
#include <utility>

#include "launcher/etcd_finder.h"
#include "launcher/succession_finder.h"
#include "rendezvous/listen.h"

namespace dtrain::launcher {

Result<void> EndpointFinder::open() { return spec_.nodes.node_rank == 0 ? listen() : Result<void>(); }

Result<void> EndpointFinder::listen() {
  const auto& nodes = spec_.nodes;
  const bool anyone = nodes.node_rank < 0;  // may be the host
  auto listener = (anyone ? try_listen_at : listen_at)(nodes.address, nodes.port);
  if (!listener) return listener.error();
  const auto port = port_of_socket(listener->get());
  if (!port) return port.error();
  port_ = *port;
  listener_ = std::move(*listener);
  if (!spec_.quiet && nodes.port == 0) callbacks_.say("nodes meet at " + address_text(nodes.address, port_));
  return {};
}

void EndpointFinder::find() {
  const auto& nodes = spec_.nodes;
  if (nodes.node_rank < 0 && !nodes.address.empty()) {
    const auto tried = listen();
    if (!tried && tried.error().errno_value != EADDRINUSE) return callbacks_.failed(tried.error());
  }
  if (listener_) return callbacks_.host_here({std::move(listener_), nodes.master_addr});
  callbacks_.at({nodes.across_hosts ? nodes.addresses : std::vector<std::string>{nodes.address}, nodes.port, 0});
}

std::string EndpointFinder::endpoint() const {
  const auto& nodes = spec_.nodes;
  return address_text(nodes.across_hosts ? nodes.master_addr : nodes.address, port_ != 0 ? port_ : nodes.port);
}

std::unique_ptr<HostFinder> make_host_finder(boost::asio::io_context& io, const JobSpec& spec,
                                             const std::string& agent_id, HostFinder::Callbacks callbacks) {
  if (spec.nodes.etcd) return std::make_unique<EtcdFinder>(io, spec, agent_id, std::move(callbacks));
  if (SuccessionFinder::wanted(spec.nodes))
    return std::make_unique<SuccessionFinder>(io, spec, agent_id, std::move(callbacks));
  return std::make_unique<EndpointFinder>(spec, std::move(callbacks));
}

}  // namespace dtrain::launcher
