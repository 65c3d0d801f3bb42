// ShardedOptimizer; see include/dtrain/optimizer.h. slices.h says what is updated together.
#include "dtrain/optimizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "strategies/optim/check_options.h"
#include "strategies/optim/slices.h"
#include "strategies/optim/whole.h"

namespace dtrain {
namespace {

constexpr const char* kAverage = "ema";

double decay_of(const OptimizerOptions& algorithm, bool is_matrix) {
  if (const auto* muon = std::get_if<Muon>(&algorithm))
    return is_matrix ? muon->weight_decay : muon->adamw.weight_decay;
  return std::visit(
      [](const auto& options) -> double {
        if constexpr (requires { options.weight_decay; }) return options.weight_decay;
        return 0;
      },
      algorithm);
}

// What a step is given: for each run a gradient, and what that counts.
struct Gradients {
  const std::vector<at::Tensor>&of_runs, &scales;
  at::Tensor scale_of(std::size_t run) const { return scales.empty() ? at::Tensor() : scales[run]; }
};

// Copies what two ranges of a parameter have in common.
std::int64_t copy_common(const at::Tensor& to, std::int64_t to_begin, const at::Tensor& from, std::int64_t from_begin) {
  const auto begin = std::max(to_begin, from_begin);
  const auto end = std::min(to_begin + to.numel(), from_begin + from.numel());
  if (begin >= end) return 0;
  to.narrow(0, begin - to_begin, end - begin).copy_(from.narrow(0, begin - from_begin, end - begin));
  return end - begin;
}

}  // namespace

struct ShardedOptimizer::State {
  ShardedOptimizerOptions options;
  SumOverRanks sum;
  std::vector<at::Tensor> runs;  // their values
  std::vector<Slice> slices;
  std::optional<StateOnDisk> disk;
  std::optional<Ema> average;
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  double lr = 0;
  bool is_loaded = false;  // shards of a slice may have different numbers of updates
  std::function<void()> before_change{};

  void change() {
    if (const auto wait = std::exchange(before_change, {})) wait();
  }

  std::vector<std::string> names_of(const Slice& slice) const {
    auto names = state_names_of(options.algorithm, slice.is_matrix);
    if (average) names.emplace_back(kAverage);
    return names;
  }

  // Of a state of the algorithm, or of the average, which lies as the values do: what belongs to the slice.
  at::Tensor tensor_of(const Slice& slice, std::size_t which) const {
    if (which < slice.states.size()) return slice.states[which];
    return average->averages()[slice.run].narrow(0, slice.begin, slice.count);
  }

  Rates rates_of(const Slice& slice) const {
    const bool has_group = slice.group < options.groups.size();
    const ParameterGroup group = has_group ? options.groups[slice.group] : ParameterGroup{};
    Rates rates;
    rates.lr = lr * group.lr_factor;
    if (const auto* muon = std::get_if<Muon>(&options.algorithm); muon != nullptr && !slice.is_matrix)
      rates.lr *= muon->adamw.lr / muon->lr;
    rates.weight_decay = group.weight_decay.value_or(decay_of(options.algorithm, slice.is_matrix));
    rates.first_update = slice.updates() == 0;
    return rates;
  }

  static Part part_of(const Stretch& stretch, const Gradients& gradients) {
    const Slice& slice = *stretch.slice;
    Part part{slice.values, gradients.of_runs[slice.run], stretch.states, slice.step};
    part.scale = gradients.scale_of(slice.run);
    if (stretch.count != slice.count) part.values = part.values.narrow(0, stretch.begin, stretch.count);
    if (stretch.count != part.gradient.numel())
      part.gradient = part.gradient.narrow(0, slice.begin + stretch.begin, stretch.count);
    part.random =
        hash_of_name(slice.shards.front().name) + static_cast<std::uint64_t>(slice.updates()) * slice.states.size();
    part.first_element = slice.shards.front().begin + stretch.begin;
    return part;
  }

  // The slices that this step updates.
  std::vector<Slice*> updated(const Gradients& gradients) {
    std::vector<Slice*> result;
    for (Slice& slice : slices) {
      if (gradients.of_runs[slice.run].defined()) result.push_back(&slice);
    }
    return result;
  }

  // Calls act() with what has the state of these slices: all at once, or from disk part by part.
  void walk(const std::vector<Slice*>& updated, bool writes, const StateOnDisk::Act& act) {
    if (disk) return disk->walk(updated, writes, act);
    std::vector<Stretch> all;
    for (const Slice* slice : updated) {
      if (slice->count > 0) all.push_back({slice, 0, slice->count, slice->states});
    }
    act(all);
  }

  void update_elementwise(const std::vector<Stretch>& stretches, const Gradients& gradients) const {
    std::map<std::tuple<std::size_t, bool>, std::pair<Rates, std::vector<Part>>> calls;  // those of equal rates
    for (const Stretch& stretch : stretches) {
      const Slice& slice = *stretch.slice;
      const Rates rates = rates_of(slice);
      const Part part = part_of(stretch, gradients);
      if (slice.is_matrix) {
        update_by_muon(std::get<Muon>(options.algorithm), rates, part, slice.shards[0].shape);
        continue;
      }
      auto& [rates_of_call, parts] = calls[{slice.group, rates.first_update}];
      rates_of_call = rates;
      slice.step.fill_(static_cast<double>(slice.updates() + 1));
      parts.push_back(part);
    }
    const auto algorithm = elementwise_of(options.algorithm);
    for (const auto& [key, call] : calls) update(*algorithm, call.first, call.second);
  }

  void update_lamb(const Lamb& lamb, const std::vector<Slice*>& updated, const Gradients& gradients) {
    const LambWalk parts = [&](bool writes, const std::function<void(const LambPart&)>& act) {
      walk(updated, writes, [&](const std::vector<Stretch>& stretches) {
        for (const Stretch& stretch : stretches) {
          const Slice& slice = *stretch.slice;
          const Rates rates = rates_of(slice);
          act({part_of(stretch, gradients), slice.shards[0].parameter, rates.lr, rates.weight_decay,
               slice.updates() + 1});
        }
      });
    };
    const auto place = runs.empty() ? at::TensorOptions() : runs[0].options();
    update_by_lamb(lamb, parts, parameters, place, sum);
  }

  void check(const Gradients& gradients) const {
    if (gradients.of_runs.size() != runs.size())
      throw ConfigError(
          fmt::format("dtrain: the optimizer's step() got {} gradients for {} runs; give one for each run, "
                      "undefined where there is none",
                      gradients.of_runs.size(), runs.size()));
    if (!gradients.scales.empty() && gradients.scales.size() != runs.size())
      throw ConfigError(
          fmt::format("dtrain: the optimizer's step() got {} scales for {} runs; give none, or one for each run",
                      gradients.scales.size(), runs.size()));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const at::Tensor &gradient = gradients.of_runs[i], scale = gradients.scale_of(i);
      if (scale.defined() && scale.dim() != 0)
        throw ConfigError(
            fmt::format("dtrain: scale {} of the optimizer's step() has shape [{}]; give a tensor without dimensions",
                        i, fmt::join(scale.sizes(), ", ")));
      if (scale.defined() && !scale.is_cpu() && scale.device() != runs[i].device())
        throw ConfigError(fmt::format(
            "dtrain: scale {} of the optimizer's step() is on {}, and run {} on {}; give it on the same device, or on "
            "the CPU",
            i, scale.device().str(), i, runs[i].device().str()));
      if (!gradient.defined()) continue;
      if (gradient.dim() != 1 || !gradient.is_contiguous() || gradient.numel() != runs[i].numel() ||
          gradient.device() != runs[i].device() || !gradient.is_floating_point())
        throw ConfigError(
            fmt::format("dtrain: gradient {} of the optimizer's step() has shape [{}] and type {} on {}; run "
                        "{} needs a contiguous one of shape [{}] and a floating type on {}",
                        i, fmt::join(gradient.sizes(), ", "), c10::toString(gradient.scalar_type()),
                        gradient.device().str(), i, runs[i].numel(), runs[i].device().str()));
    }
  }

  std::int64_t load_into(Slice& slice, const ShardState& saved) {
    std::int64_t copied = 0, offset = 0;
    const auto names = names_of(slice);
    for (ShardPlace& shard : slice.shards) {
      if (shard.name == saved.name) {
        check_names(saved, names);
        for (const auto& [name, tensor] : saved.tensors) {
          const auto which = std::find(names.begin(), names.end(), name) - names.begin();
          copy_common(tensor_of(slice, static_cast<std::size_t>(which)).narrow(0, offset, shard.count), shard.begin,
                      tensor, saved.begin);
        }
        const auto common =
            std::min(shard.begin + shard.count, saved.begin + saved.count) - std::max(shard.begin, saved.begin);
        copied += std::max<std::int64_t>(common, 0);
        shard.step = saved.step;
      }
      offset += shard.count;
    }
    return copied;
  }

  static void check_names(const ShardState& saved, const std::vector<std::string>& names) {
    std::vector<std::string> given;
    for (const auto& [name, tensor] : saved.tensors) {
      given.push_back(name);
      if (tensor.dim() != 1 || tensor.numel() != saved.count)
        throw ConfigError(
            fmt::format("dtrain: the saved '{}' of '{}' has shape [{}] where its count is {}; give a flat "
                        "tensor of so many elements",
                        name, saved.name, fmt::join(tensor.sizes(), ", "), saved.count));
    }
    auto wanted = names;
    std::sort(given.begin(), given.end());
    std::sort(wanted.begin(), wanted.end());
    if (given != wanted)
      throw ConfigError(
          fmt::format("dtrain: the saved state of '{}' is [{}] and this optimizer's is [{}]; load it with "
                      "the algorithm that saved it",
                      saved.name, fmt::join(given, ", "), fmt::join(wanted, ", ")));
  }
};

ShardedOptimizer::ShardedOptimizer(const ShardedOptimizerOptions& options, const std::vector<ShardRun>& runs,
                                   SumOverRanks sum)
    : state_(std::make_unique<State>()) {
  check_options(options);
  const torch::NoGradGuard no_grad;
  state_->options = options;
  state_->sum = std::move(sum);
  state_->lr = lr_of(options.algorithm);
  state_->slices = slices_of(options, runs, state_->parameters);
  if (options.state_folder.empty()) {
    add_state(state_->slices, options);
  } else {
    state_->disk.emplace(state_->slices, options);
  }
  for (const ShardRun& run : runs) state_->runs.push_back(run.values.detach());
  if (options.average_decay) state_->average.emplace(runs, *options.average_decay);
}
ShardedOptimizer::~ShardedOptimizer() = default;
ShardedOptimizer::ShardedOptimizer(ShardedOptimizer&&) noexcept = default;
ShardedOptimizer& ShardedOptimizer::operator=(ShardedOptimizer&&) noexcept = default;

void ShardedOptimizer::step(const std::vector<at::Tensor>& of_runs, const std::vector<at::Tensor>& scales) {
  const torch::NoGradGuard no_grad;
  const Gradients gradients{of_runs, scales};
  state_->check(gradients);
  state_->change();
  if (state_->is_loaded) state_->slices = divided_by_step(state_->slices);
  state_->is_loaded = false;
  const auto updated = state_->updated(gradients);
  if (const auto* lamb = std::get_if<Lamb>(&state_->options.algorithm)) {
    state_->update_lamb(*lamb, updated, gradients);
  } else {
    state_->walk(updated, true,
                 [&](const std::vector<Stretch>& stretches) { state_->update_elementwise(stretches, gradients); });
  }
  for (Slice* slice : updated) {
    for (ShardPlace& shard : slice->shards) ++shard.step;
  }
  ++state_->steps;
  if (state_->average) state_->average->update();
}

Ema* ShardedOptimizer::average() { return state_->average ? &*state_->average : nullptr; }

double ShardedOptimizer::lr() const { return state_->lr; }
void ShardedOptimizer::set_lr(double lr) {
  if (!std::isfinite(lr) || lr < 0)
    throw ConfigError(fmt::format("dtrain: set_lr({}) of the optimizer: choose a number that is 0 or more", lr));
  state_->lr = lr;
}
std::int64_t ShardedOptimizer::steps() const { return state_->steps; }

std::vector<ShardState> ShardedOptimizer::state() const {
  std::vector<ShardState> result;
  for (const Slice& slice : state_->slices) {
    const auto names = state_->names_of(slice);
    std::int64_t offset = 0;
    for (const ShardPlace& shard : slice.shards) {
      ShardState one{shard.name, shard.begin, shard.count, shard.step};
      for (std::size_t i = 0; i < names.size(); ++i)
        one.tensors.emplace_back(names[i], state_->tensor_of(slice, i).narrow(0, offset, shard.count));
      result.push_back(std::move(one));
      offset += shard.count;
    }
  }
  return result;
}

std::int64_t ShardedOptimizer::load(const ShardState& saved) {
  const torch::NoGradGuard no_grad;
  state_->change();
  std::int64_t copied = 0;
  for (Slice& slice : state_->slices) copied += state_->load_into(slice, saved);
  state_->is_loaded = true;
  state_->steps = std::max(state_->steps, saved.step);
  if (state_->average) state_->average->set_updates(state_->steps);
  return copied;
}

void ShardedOptimizer::before_change(std::function<void()> wait) { state_->before_change = std::move(wait); }

}  // namespace dtrain
