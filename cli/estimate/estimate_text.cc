// Tested by test/unit/cli/estimate/estimate_test.cc.
#include "cli/estimate/estimate_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/base/text.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

using EstimateJson = nlohmann::ordered_json;

constexpr const char* kOneCopy = "fsdp, one copy (CPU)";

std::string amount_text(double bytes) {
  if (bytes == 0) return "0";
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  if (bytes < 1e12) return fmt::format("{:.1f} GB", bytes / 1e9);
  return fmt::format("{:.1f} TB", bytes / 1e12);
}

std::string precision_name(Precision param) {
  switch (param) {
    case Precision::bfloat16:
      return "bfloat16";
    case Precision::float16:
      return "float16";
    case Precision::same:
    case Precision::float32:
      break;
  }
  return "float32";
}

std::string many_text(std::int64_t count) {
  const auto number = static_cast<double>(count);
  if (count < 10'000) return std::to_string(count);
  if (count < 1'000'000) return fmt::format("{:.1f} thousand", number / 1e3);
  if (count < 1'000'000'000) return fmt::format("{:.1f} million", number / 1e6);
  return fmt::format("{:.2f} billion", number / 1e9);
}

std::string head(const EstimatedModel& model, const EstimateOptions& options) {
  const auto& units = model.size.units;
  const std::string nodes = options.knows_nodes ? " on " + counted(options.nnodes, "node") : "";
  std::string text = fmt::format("{} parameters, {}{}, {} with state in {}\n", many_text(model.size.elements()),
                                 counted(options.ranks(), "rank"), nodes, options.optimizer, options.state);
  if (!options.strategy.empty()) text += fmt::format("strategy: {}\n", printable(options.strategy, 200));
  if (units.empty()) return text + "units: none was found, so fsdp makes all parameters whole at one time (--units)\n";
  text += fmt::format("units: {}; the largest has {}, and {} are in no unit\n", fmt::join(model.patterns, ", "),
                      many_text(*std::max_element(units.begin(), units.end())), many_text(model.size.rest));
  return text;
}

std::string row_text(const EstimateRow& row, bool marks, bool on_disk) {
  const auto& memory = row.memory;
  return fmt::format("  {:<22}{:>10}  {:>10}  {:>10}  {:>10}  {:>10}{}{}\n", row.strategy,
                     amount_text(memory.parameters), amount_text(memory.gradients), amount_text(memory.optimizer),
                     amount_text(memory.live), amount_text(memory.total()),
                     on_disk ? fmt::format("  {:>10}", amount_text(memory.on_disk)) : "",
                     !marks     ? ""
                     : row.fits ? "  fits"
                                : "  too large");
}

}  // namespace

std::vector<EstimateRow> estimate_rows(const EstimatedModel& model, const EstimateOptions& options,
                                       const std::optional<Strategy>& strategy) {
  std::vector<EstimateRow> rows;
  config::TrainingSize training{.ranks = options.ranks(),
                                .state_numbers = options.state_numbers,
                                .state_bytes = options.state_bytes,
                                .micro_batches = std::max(1, options.micro_batches),
                                .loss_scale = options.loss_scale};
  const auto add = [&](const std::string& name, Strategy one) {
    if (options.state_on_disk) one.state_folder = "/";
    const config::RankMemory memory = config::memory_of(one, model.size, training);
    rows.push_back({name, precision_name(one.param), memory, options.memory == 0 || memory.total() <= options.memory});
  };
  if (strategy) {
    add(name_of(strategy->kind), *strategy);
    training.host_ranks = options.host_ranks();
    const bool by_itself = options.nnodes == 1 || (strategy->shard_size > 0 && strategy->shard_size <= options.nproc);
    if (training.host_ranks > 0 && strategy->kind == StrategyKind::fsdp && strategy->one_copy.value_or(by_itself))
      add(kOneCopy, *strategy);
    return rows;
  }
  for (const Precision param : {Precision::same, Precision::bfloat16}) {
    for (const StrategyKind kind : {StrategyKind::ddp, StrategyKind::zero1, StrategyKind::zero2, StrategyKind::fsdp}) {
      training.host_ranks = 0;
      if (kind == StrategyKind::ddp && param != Precision::same) continue;
      add(name_of(kind), {.kind = kind, .param = param});
    }
    if (options.nnodes > 1) continue;
    training.host_ranks = options.host_ranks();
    if (training.host_ranks > 0) add(kOneCopy, {.kind = StrategyKind::fsdp, .param = param});
  }
  return rows;
}

std::string estimate_text(const EstimatedModel& model, const EstimateOptions& options,
                          const std::vector<EstimateRow>& rows) {
  std::string text = head(model, options);
  std::string precision;
  const bool on_disk =
      std::any_of(rows.begin(), rows.end(), [](const EstimateRow& row) { return row.memory.on_disk > 0; });
  for (const EstimateRow& row : rows) {
    if (row.precision != precision) {
      precision = row.precision;
      text += fmt::format("\n{:<24}{:>10}  {:>10}  {:>10}  {:>10}  {:>10}{}\n", precision, "parameters", "gradients",
                          "optimizer", "live", "total", on_disk ? "     on disk" : "");
    }
    text += row_text(row, options.memory > 0, on_disk);
  }
  text +=
      "\nof each rank, without activations and buffers. live: units that are whole in backward, and gradients on\n"
      "their way. bfloat16: what is optimized, and a rank's part of its gradient, is float32.\n";
  if (on_disk)
    text +=
        "on disk: the optimizer's state; a step has 64 MiB of it in memory. Muon may have two of its matrices there.\n";
  if (options.memory > 0) text += fmt::format("memory of a rank: {}\n", amount_text(options.memory));
  return text;
}

std::string estimate_json(const EstimatedModel& model, const EstimateOptions& options,
                          const std::vector<EstimateRow>& rows) {
  EstimateJson json;
  json["parameters"] = model.size.elements();
  json["ranks"] = options.ranks();
  if (options.knows_nodes) json["nodes"] = options.nnodes;
  if (!options.strategy.empty()) json["strategy"] = options.strategy;
  json["optimizer"] = options.optimizer;
  json["state"] = options.state;
  json["units"] = model.patterns;
  json["in_no_unit"] = model.size.rest;
  if (options.memory > 0) json["memory"] = options.memory;
  json["strategies"] = EstimateJson::array();
  for (const EstimateRow& row : rows) {
    EstimateJson one;
    one["strategy"] = row.strategy == kOneCopy ? "fsdp" : row.strategy;
    if (one["strategy"] == "fsdp") one["one_copy"] = row.strategy == kOneCopy;
    one["precision"] = row.precision;
    one["parameters"] = row.memory.parameters;
    one["gradients"] = row.memory.gradients;
    one["optimizer"] = row.memory.optimizer;
    one["live"] = row.memory.live;
    one["total"] = row.memory.total();
    one["on_disk"] = row.memory.on_disk;
    if (options.memory > 0) one["fits"] = row.fits;
    json["strategies"].push_back(std::move(one));
  }
  return json.dump(2, ' ', false, EstimateJson::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::cli
