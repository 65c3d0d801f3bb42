#include "cli/engines/cloud.h"

#include <fmt/format.h>

#include <string>

#include "cli/engines/engine.h"
#include "launcher/engines/cloud_plan.h"
#include "rendezvous/net/address_text.h"

namespace dtrain::cli {
namespace {

constexpr const char* kPort = "29500";  // torchrun's, which its users open between nodes

}  // namespace

Result<void> take_from_cloud(const RawOptions& raw, const Host& host, Options& options) {
  const auto speaks = may_speak("cloud", raw, host, options);
  if (!speaks) return speaks.error();
  if (!*speaks || host.mpi) return {};  // a launcher's word is in options by now
  auto found = launcher::cloud_place(host.env);
  if (!found) return found.error();
  if (!*found || (*found)->nodes == 1) return {};
  const launcher::CloudPlace& place = **found;
  const std::string nodes = std::to_string(place.nodes);
  if (options.given(FlagId::nnodes) && options.text(FlagId::nnodes) != nodes) return {};
  const std::string port = options.given(FlagId::master_port) ? options.text(FlagId::master_port) : kPort;
  options.suggest(FlagId::nnodes, nodes, place.origin);
  options.suggest(FlagId::node_rank, std::to_string(place.node_rank), place.rank_origin);
  options.suggest(FlagId::rdzv_endpoint, address_text(place.address, port), place.address_origin);
  if (!place.id.empty()) options.suggest(FlagId::run_id, place.id, place.id_origin);
  return {};
}

}  // namespace dtrain::cli
