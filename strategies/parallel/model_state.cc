#include "strategies/parallel/model_state.h"

#include <fmt/format.h>

#include <unordered_map>

#include "strategies/ddp/diverged.h"

namespace dtrain {
namespace {

using Purpose = ParallelCore::Purpose;

// The optimizer's count of updates of a parameter; each rank that has a part of it has the same.
constexpr const char* kStepOf = ".step";

StatePiece saved_piece(const std::string& name, const Shard& shard, const at::Tensor& values, Purpose purpose,
                       const SavingRank& saving) {
  StatePiece piece{name, values.scalar_type(), shard.shape, shard.begin, values};
  if (purpose == Purpose::restore) return piece;
  if (purpose != Purpose::keep && !saving.saves) piece.values = values.narrow(0, 0, 0);
  if (saving.of == 0) return piece;
  piece.values = share_of(values, saving.rank, saving.of);
  piece.begin += piece.values.storage_offset() - values.storage_offset();
  return piece;
}

std::unordered_map<std::string, ShardState> by_name(const ShardedOptimizer& optimizer) {
  std::unordered_map<std::string, ShardState> found;
  for (ShardState& each : optimizer.state()) found.emplace(each.name, std::move(each));
  return found;
}

}  // namespace

at::Tensor share_of(const at::Tensor& row, int rank, int of) {
  const std::int64_t first = row.numel() * rank / of;
  return row.narrow(0, first, row.numel() * (rank + 1) / of - first);
}

std::vector<at::Tensor> rows_of(const std::vector<Shard>& shards, bool weights, const ShardedOptimizer* optimizer) {
  std::vector<at::Tensor> rows;
  const auto states = optimizer != nullptr ? by_name(*optimizer) : std::unordered_map<std::string, ShardState>();
  for (const Shard& shard : shards) {
    if (weights) rows.push_back(shard.values);
    const auto its = states.find(shard.name);
    if (its == states.end()) continue;
    for (const auto& [name, values] : its->second.tensors) rows.push_back(values);
  }
  return rows;
}

CheckpointState state_of(torch::nn::Module& module, const std::vector<Shard>& shards, const ShardedOptimizer* optimizer,
                         Purpose purpose, const SavingRank& saving) {
  CheckpointState state;
  std::unordered_map<std::string, const Shard*> parts;
  for (const Shard& each : shards) parts.emplace(each.name, &each);
  const auto states = optimizer != nullptr ? by_name(*optimizer) : std::unordered_map<std::string, ShardState>();
  // In the module's order, which is the same on all ranks and for all strategies. What is tied is there once.
  for (const NamedParameter& parameter : parameters_of(module)) {
    const auto part = parts.find(parameter.name);
    if (part == parts.end()) continue;
    const Shard& shard = *part->second;
    state.model.push_back(saved_piece(parameter.name, shard, shard.values, purpose, saving));
    const auto its = states.find(parameter.name);
    if (its == states.end()) continue;
    for (const auto& [name, values] : its->second.tensors)
      state.optimizer.push_back(saved_piece(parameter.name + "." + name, shard, values, purpose, saving));
    StatePiece step{parameter.name + kStepOf, at::kLong, {}, 0, at::full({1}, its->second.step, at::kLong)};
    const bool says =
        saving.saves && shard.begin == 0 && shard.values.numel() > 0 && (saving.of == 0 || saving.rank == 0);
    if (purpose == Purpose::save && !says) step.values = step.values.narrow(0, 0, 0);
    state.optimizer.push_back(step);
  }
  for (const auto& item : module.named_buffers()) {
    const at::Tensor& buffer = item.value();
    const bool says = purpose == Purpose::keep || purpose == Purpose::restore || saving.rank == 0;
    TORCH_CHECK(buffer.is_contiguous(), "dtrain: buffer '", item.key(),
                "' is not contiguous, and cannot be in a checkpoint");
    const at::Tensor row = buffer.detach().view({-1});
    StatePiece piece{item.key(), buffer.scalar_type(), buffer.sizes().vec(), 0, says ? row : row.narrow(0, 0, 0)};
    piece.changes = true;  // by a forward
    state.model.push_back(std::move(piece));
  }
  return state;
}

void allow_counts_of_torch(CheckpointState& state) {
  bool counted = false;  // by torch: the parameter has more than a momentum
  for (StatePiece& piece : state.optimizer) {
    if (!piece.name.ends_with(kStepOf)) {
      counted = counted || !piece.name.ends_with(".momentum_buffer");
      continue;
    }
    piece.convert = true;  // a parameter's count comes after its tensors
    piece.optional = !counted;
    if (piece.optional) piece.values.fill_(1);
    counted = false;
  }
}

std::string lost_count(const CheckpointState& state) {
  const StatePiece* changed = nullptr;  // a tensor of the parameter that is not 0
  for (const StatePiece& piece : state.optimizer) {
    if (!piece.name.ends_with(kStepOf)) {
      if (changed == nullptr && piece.values.any().item<bool>()) changed = &piece;
      continue;
    }
    if (changed != nullptr && piece.values.item<std::int64_t>() == 0)
      return fmt::format(
          "{} is 0, but {} is not. torch.distributed.checkpoint writes 0 for tensors without a dimension "
          "where it consolidates; save the optimizer's state without enable_consolidation",
          piece.name, changed->name);
    changed = nullptr;
  }
  return {};
}

void restore(ShardedOptimizer& optimizer, const CheckpointState& state) {
  std::unordered_map<std::string, at::Tensor> values;
  for (const StatePiece& each : state.optimizer) values.emplace(each.name, each.values);
  // The tensors are the state itself and are filled; the counts are not.
  for (ShardState& each : optimizer.state()) {
    each.step = values.at(each.name + kStepOf).item<std::int64_t>();
    optimizer.load(each);
  }
}

}  // namespace dtrain
