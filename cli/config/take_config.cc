// Tested by test/unit/cli/config/take_config_test.cc.
#include "cli/config/take_config.h"

#include <fmt/format.h>

#include <optional>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_file.h"
#include "cli/nodes/nodes.h"
#include "cli/options/options.h"
#include "launcher/engines/cloud_plan.h"
#include "launcher/engines/mpi_plan.h"
#include "launcher/engines/slurm_plan.h"

namespace dtrain::cli {
namespace {

// Nothing: this process does not know yet how many nodes there will be.
Result<std::optional<int>> nodes_of_job(const RawValue& workers, const Options& options, const Host& host) {
  const std::optional<int> one = 1, unknown;
  if (options.given(FlagId::nnodes)) {
    const auto range = parse_nnodes(options.text(FlagId::nnodes));
    if (!range) return options.blame(FlagId::nnodes, range.error());
    if (range->min == range->max) return std::optional(range->min);
    return usage_error(
        fmt::format("{}: a number for the whole job is in conflict with {} '{}'; say nproc, which is the "
                    "number on each node",
                    workers.where, options[FlagId::nnodes].where, printable(options.text(FlagId::nnodes))));
  }
  const std::string& engine = options.text(FlagId::engine);
  if (engine == "local" || engine == "ray" || engine == "spark") return one;
  if (engine != "auto" || options.given(FlagId::hosts) || options.given(FlagId::hostfile)) return unknown;
  const auto step = launcher::slurm_step(host.env);
  if (step && *step) return std::optional((*step)->nodes);
  const auto process = launcher::mpi_process(host.env);
  const auto place = launcher::cloud_place(host.env);
  return step && process && place && !*process && !*place ? one : unknown;
}

// --nproc of so many workers of the whole job.
Result<void> divide_workers(const RawValue& workers, const Host& host, RawOptions& raw) {
  const Options options(raw, host);
  if (options.given(FlagId::nproc)) {
    if (options[FlagId::nproc].origin != Origin::file) return {};
    return usage_error(
        fmt::format("{}: it contradicts {}; remove one of the two", workers.where, options[FlagId::nproc].where));
  }
  const auto nodes = nodes_of_job(workers, options, host);
  if (!nodes) return nodes.error();
  if (!*nodes)
    return usage_error(
        fmt::format("{}: these are the workers of the whole job; say on how many nodes they are: "
                    "--nnodes N",
                    workers.where));
  const int count = *parse_number(workers.text, 1, kMostRank);
  if (count % **nodes != 0)
    return usage_error(
        fmt::format("{}: {} workers cannot be divided evenly among {} nodes; correct one of them "
                    "(--nnodes)",
                    workers.where, count, **nodes));
  raw[FlagId::nproc] = RawValue{std::to_string(count / **nodes), Origin::file, workers.where};
  return {};
}

}  // namespace

Result<std::vector<std::string>> take_config(RawOptions& raw, const Host& host) {
  std::vector<std::string> none;
  if (raw.as_torchrun) {
    if (!raw[FlagId::config]) return none;
    return usage_error(fmt::format("{} needs the name dtrain: dtrain run", raw[FlagId::config]->where));
  }
  const Options options(raw, host);
  if (!options.given(FlagId::config)) return none;
  const std::string& file = options.text(FlagId::config);
  if (file == "-") return options.blame(FlagId::config, usage_error("standard input is the workers'; name a file"));
  const auto text = host.read_text(file);
  if (!text) return options.blame(FlagId::config, usage_error(text.error().message));
  auto config = read_config(*text, file);
  if (!config) return config.error();
  add_file(config->values, host, raw);
  if (config->workers)
    if (auto done = divide_workers(*config->workers, host, raw); !done) return done.error();
  raw.data = std::move(config->data);
  return std::move(config->notes);
}

}  // namespace dtrain::cli
