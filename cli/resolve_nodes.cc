// Which nodes form the job, and where they meet: the rules are in nodes.h, here they meet this host's addresses.
#include <fmt/format.h>

#include "cli/nodes.h"
#include "cli/resolve_parts.h"
#include "cli/take.h"
#include "cli/text.h"

namespace dtrain::cli {
namespace {

std::optional<std::string> said(const Options& options, FlagId id) {
  return options.given(id) ? std::optional(options.text(id)) : std::nullopt;
}

Result<NodesTyped> typed(const Options& options) {
  NodesTyped typed;
  typed.nnodes = options.text(FlagId::nnodes);
  if (auto done = take_switch(options, FlagId::standalone, typed.standalone); !done) return done.error();
  typed.backend = said(options, FlagId::rdzv_backend);
  typed.endpoint = said(options, FlagId::rdzv_endpoint);
  if (typed.endpoint == "") typed.endpoint.reset();  // as torchrun: an empty one is none
  typed.conf = said(options, FlagId::rdzv_conf);
  typed.node_rank = said(options, FlagId::node_rank);
  typed.master_addr = said(options, FlagId::master_addr);
  typed.master_port = said(options, FlagId::master_port);
  typed.local_addr = said(options, FlagId::local_addr);
  return typed;
}

}  // namespace

Result<void> resolve_nodes(const Given& given, Plan& plan) {
  auto flags = typed(given.options);
  if (!flags) return flags.error();
  auto [nodes, error] = plan_nodes(*flags);
  if (error) return given.options.blame(error->flag, {ErrorKind::usage, error->message});
  auto& spec = plan.spec.nodes;
  spec.min = nodes.min;
  spec.max = nodes.max;
  spec.node_rank = nodes.max > 1 ? nodes.node_rank : -1;
  spec.port = nodes.port;
  spec.join_timeout = nodes.join_timeout;
  spec.last_call_timeout = nodes.last_call_timeout;
  plan.notes.insert(plan.notes.end(), nodes.notes.begin(), nodes.notes.end());
  if (nodes.host.empty()) return {};
  auto address = given.host.own_address(nodes.host);
  if (!address) return given.options.blame(nodes.host_flag, address.error());
  spec.address = *address;
  spec.master_addr = nodes.host;
  return {};
}

}  // namespace dtrain::cli
