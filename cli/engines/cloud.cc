#include "cli/engines/cloud.h"

#include <fmt/format.h>

#include <string>

#include "cli/base/usage_error.h"
#include "cli/engines/engine.h"
#include "cli/nodes/nodes.h"
#include "launcher/engines/cloud_plan.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/net/address_text.h"

namespace dtrain::cli {
namespace {

constexpr const char* kPort = "29500";  // torchrun's, which its users open between nodes

// Whether the nodes of this job have numbers and meet at a host that was named: then only this node's number is
// missing.
bool needs_a_number(const Options& options) {
  for (const FlagId id : {FlagId::standalone, FlagId::rdzv_endpoint})
    if (options.given(id)) return false;
  return options.given(FlagId::master_addr) && options.text(FlagId::master_addr) != "real" &&
         (!options.given(FlagId::rdzv_backend) || options.text(FlagId::rdzv_backend) == "static");
}

Result<void> take_from_indexed_job(const Host& host, Options& options) {
  const auto pod = launcher::indexed_pod(host.env, host.full_name());
  const auto range = parse_nnodes(options.text(FlagId::nnodes));  // an error is told by resolve_nodes()
  if (!pod || !options.given(FlagId::nnodes) || !range || range->max == 1 || options.given(FlagId::node_rank))
    return {};
  const auto ha = options.on(FlagId::ha);
  if (!ha) return ha.error();
  const std::string origin = launcher::IndexedPod::kOrigin;
  const bool numbered = range->min == range->max && !*ha;
  if (user_decides(options)) {
    if (numbered && needs_a_number(options)) options.suggest(FlagId::node_rank, std::to_string(pod->index), origin);
    return {};
  }
  if (pod->first.empty())
    return usage_error(fmt::format(
        "this is pod {} of an indexed Job, and its name {} has no domain by which it finds the others: give "
        "the pods a `subdomain` and its headless Service, or say where they meet with --rdzv-endpoint",
        pod->index, printable(host.full_name())));
  const std::string port = port_or(options, kPort);
  std::string endpoint = pod->first + ":" + port;
  for (int i = 1; *ha && i < 3; ++i)
    endpoint += fmt::format(",{}-{}{}:{}", pod->job, i, pod->first.substr(pod->job.size() + 2), port);
  options.suggest(FlagId::rdzv_endpoint, endpoint, origin);
  if (numbered) options.suggest(FlagId::node_rank, std::to_string(pod->index), origin);
  options.suggest(FlagId::run_id, pod->job, origin);
  return {};
}

}  // namespace

Result<void> take_from_cloud(const RawOptions& raw, const Host& host, Options& options) {
  if (raw.as_torchrun || host.place || host.mpi) return {};  // a launcher's word is in options by now
  const auto speaks = may_speak("cloud", raw, host, options);
  if (!speaks) return speaks.error();
  auto found = launcher::cloud_place(host.env);
  if (*speaks && !found) return found.error();
  if (is_named("auto", options) && found && !*found) return take_from_indexed_job(host, options);
  if (!*speaks || !*found || (*found)->nodes == 1) return {};
  const launcher::CloudPlace& place = **found;
  const std::string nodes = std::to_string(place.nodes);
  if (options.given(FlagId::nnodes) && options.text(FlagId::nnodes) != nodes) return {};
  options.suggest(FlagId::nnodes, nodes, place.origin);
  options.suggest(FlagId::node_rank, std::to_string(place.node_rank), place.rank_origin);
  options.suggest(FlagId::rdzv_endpoint, address_text(place.address, port_or(options, kPort)), place.address_origin);
  if (!place.id.empty()) options.suggest(FlagId::run_id, place.id, place.id_origin);
  return {};
}

}  // namespace dtrain::cli
