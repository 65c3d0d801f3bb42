#include "launcher/finding/endpoint_finder.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "rendezvous/net/listen.h"

namespace dtrain::launcher {

namespace {

constexpr const char* kReally = "; is this node really --node-rank 0?";

// A second node 0 is told about the first: another port would not help it.
Error judged(const Error& error, const NodesSpec& nodes) {
  if (nodes.node_rank != 0 || error.errno_value != EADDRINUSE) return error;
  const std::string holder = port_holder(nodes.port);
  // Across hosts an agent lets nobody look whose port it is.
  if (holder.empty() && nodes.across_hosts) return {error.kind, error.message + kReally, error.errno_value};
  if (!holder.starts_with("dtrain")) return error;
  return {error.kind,
          fmt::format("{} hosts a job at {} already{} (another job: choose another port)", holder,
                      address_text(nodes.address, nodes.port), kReally),
          error.errno_value};
}

}  // namespace

std::string only_here(const NodesSpec& nodes) {
  return nodes.across_hosts ? "" : fmt::format("; {} is only this host", nodes.master_addr);
}

Result<void> EndpointFinder::open() { return spec_.nodes.node_rank == 0 ? listen() : Result<void>(); }

Result<void> EndpointFinder::listen() {
  const auto& nodes = spec_.nodes;
  const bool anyone = nodes.node_rank < 0;  // may be the host
  auto listener = (anyone ? try_listen_at : listen_at)(nodes.address, nodes.port);
  if (!listener) return judged(listener.error(), nodes);
  const auto port = port_of_socket(listener->get());
  if (!port) return port.error();
  port_ = *port;
  listener_ = std::move(*listener);
  if (!spec_.quiet && nodes.port == 0) say_("nodes meet at " + address_text(nodes.address, port_));
  return {};
}

void EndpointFinder::find() {
  const auto& nodes = spec_.nodes;
  if (nodes.node_rank < 0 && !nodes.address.empty()) {
    const auto tried = listen();
    if (!tried && tried.error().errno_value != EADDRINUSE) return answers_.failed(tried.error());
  }
  if (listener_) return answers_.here({std::move(listener_), nodes.master_addr});
  answers_.there({nodes.across_hosts ? nodes.addresses : std::vector<std::string>{nodes.address}, nodes.port, 0});
}

std::string EndpointFinder::endpoint() const {
  const auto& nodes = spec_.nodes;
  return address_text(nodes.across_hosts ? nodes.master_addr : nodes.address, port_ != 0 ? port_ : nodes.port);
}

}  // namespace dtrain::launcher
