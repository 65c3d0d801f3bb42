// Tested by test/unit/cli/engines/hosts_test.cc.
#include "cli/engines/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/base/parse_value.h"
#include "cli/base/usage_error.h"
#include "cli/nodes/nodes.h"
#include "cli/options/take_value.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

// Who says one of these has said where the nodes meet.
constexpr std::array kPlaces = {FlagId::standalone, FlagId::rdzv_backend, FlagId::rdzv_endpoint, FlagId::node_rank,
                                FlagId::master_addr};

bool is_one_node(const Options& options) {
  const std::string& nnodes = options.text(FlagId::nnodes);
  return options.given(FlagId::nnodes) && (nnodes == "1" || nnodes == "1:1");
}

}  // namespace

Result<std::string> engine_of(const Options& options) {
  std::string named;
  if (auto done = take_choice<std::string>(options, FlagId::engine, named,
                                           {{"auto", "auto"},
                                            {"local", "local"},
                                            {"slurm", "slurm"},
                                            {"ray", "ray"},
                                            {"spark", "spark"},
                                            {"mpi", "mpi"},
                                            {"ssh", "ssh"}});
      !done)
    return done.error();
  return named;
}

bool user_decides(const Options& options) {
  return is_one_node(options) ||
         std::any_of(kPlaces.begin(), kPlaces.end(), [&](FlagId id) { return options.given(id); });
}

bool is_named(std::string_view engine, const Options& options) { return options.text(FlagId::engine) == engine; }

Result<bool> may_speak(std::string_view engine, const RawOptions& raw, const Host& host, const Options& options) {
  if (host.place) return false;
  const auto named = engine_of(options);
  if (!named) return named.error();
  if (*named == "auto") return !raw.as_torchrun && !user_decides(options);
  if (*named != engine) return false;
  for (const FlagId id : kPlaces)
    if (options.given(id))
      return usage_error(
          fmt::format("{} is in conflict with --engine {}, which says where the nodes meet: leave out one "
                      "of the two",
                      options[id].where, engine));
  return true;
}

std::string port_or(const Options& options, const std::string& fallback) {
  return options.given(FlagId::master_port) ? options.text(FlagId::master_port) : fallback;
}

bool is_sized_by_nodes(const Options& options) { return options.text(FlagId::num_proc) == "auto"; }

Result<std::optional<int>> part_of_num_proc(const Options& options) {
  if (!options.given(FlagId::num_proc)) return std::optional<int>();
  if (is_sized_by_nodes(options)) {
    if (!options.given(FlagId::nproc)) return std::optional<int>();
    return options.blame(FlagId::num_proc, usage_error(fmt::format("{} says how many workers a node has; leave out one "
                                                                   "of the two",
                                                                   options[FlagId::nproc].where)));
  }
  const auto all = parse_number(options.text(FlagId::num_proc), 1, kMostRank);
  if (!all) return options.blame(FlagId::num_proc, usage_error(all.error().message + ", or auto"));
  const auto nodes = options.given(FlagId::nnodes) ? parse_nnodes(options.text(FlagId::nnodes)) : NodeRange{};
  if (!nodes) return options.blame(FlagId::nnodes, nodes.error());
  const auto wrong = [&](const std::string& why) { return options.blame(FlagId::num_proc, usage_error(why)); };
  if (nodes->min != nodes->max)
    return wrong("a job whose nodes come and go has no fixed number of workers; give --nproc");
  if (*all % nodes->min != 0)
    return wrong(fmt::format("these are no equal parts for {} nodes; give each node its --nproc", nodes->min));
  const int part = *all / nodes->min;
  if (part > kMostWorkersOfNode)
    return wrong(fmt::format("that is {} for each node, and a node has at most {}", part, kMostWorkersOfNode));
  const RawValue& each = options[FlagId::nproc];
  if (options.given(FlagId::nproc) && each.text != std::to_string(part))
    return wrong(fmt::format("that is {} for each node, and {} says {}; leave out one of the two", part, each.where,
                             printable(each.text)));
  return std::optional(part);
}

}  // namespace dtrain::cli
