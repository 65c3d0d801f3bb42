#include "strategies/optim/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "strategies/optim/check_options.h"

namespace dtrain {
namespace {

constexpr std::uint64_t kFnvStart = 0xCBF29CE484222325U;  // FNV-1a
constexpr std::uint64_t kFnvPrime = 0x100000001B3U;

// Whether a shard may lie in one slice with others of its group.
bool stands_alone(const ShardedOptimizerOptions& options, bool is_matrix) {
  const bool is_rounded = options.state_dtype == at::kBFloat16;  // by random numbers of the element's own
  return is_matrix || is_rounded || std::holds_alternative<Lamb>(options.algorithm);
}

double first_value(const OptimizerOptions& algorithm) {
  const auto* adagrad = std::get_if<Adagrad>(&algorithm);
  return adagrad == nullptr ? 0 : adagrad->initial_accumulator_value;
}

at::ScalarType state_type(const Slice& slice, const ShardedOptimizerOptions& options) {
  return options.state_dtype.value_or(slice.values.scalar_type());
}

StateRegion region_of(const Slice& slice, const ShardedOptimizerOptions& options) {
  if (!slice.values.is_cpu())
    throw ConfigError(
        fmt::format("dtrain: state_folder '{}' is for parameters on a CPU, and '{}' is on {}; leave it out",
                    options.state_folder, slice.shards.front().name, slice.values.device().str()));
  return {slice.count, state_names_of(options.algorithm, slice.is_matrix).size(),
          c10::elementSize(state_type(slice, options)), slice.is_matrix};
}

// The parts of the slices that a job has in its memory.
std::vector<Stretch> stretches_of(const StateJob& job, std::byte* memory,
                                  const std::vector<std::vector<Slice*>>& slices) {
  std::vector<Stretch> stretches;
  for (const StateUse& use : job.uses) {
    for (const Slice* slice : slices[use.region]) {
      const auto first = std::max(use.begin, slice->region_begin);
      const auto end = std::min(use.begin + use.count, slice->region_begin + slice->count);
      if (first >= end) continue;
      Stretch stretch{slice, first - slice->region_begin, end - first, {}};
      for (std::size_t i = 0; i < slice->states.size(); ++i) {
        const auto type = slice->states[i].scalar_type();
        const auto skipped = static_cast<std::size_t>(first - use.begin) * c10::elementSize(type);
        stretch.states.push_back(at::from_blob(memory + use.rows[i] + skipped, {end - first}, at::TensorOptions(type)));
      }
      stretches.push_back(std::move(stretch));
    }
  }
  return stretches;
}

at::Tensor step_tensor(const at::Tensor& values) { return at::zeros({}, values.options().dtype(at::kFloat)); }

}  // namespace

std::uint64_t hash_of_name(const std::string& name) {
  std::uint64_t hash = kFnvStart;
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * kFnvPrime;
  return hash;
}

std::optional<Elementwise> elementwise_of(const OptimizerOptions& algorithm) {
  return std::visit(
      [](const auto& options) -> std::optional<Elementwise> {
        using Options = std::decay_t<decltype(options)>;
        if constexpr (std::is_same_v<Options, Muon>) {
          return options.adamw;
        } else if constexpr (std::is_same_v<Options, Lamb>) {
          return std::nullopt;
        } else {
          return options;
        }
      },
      algorithm);
}

std::vector<std::string> state_names_of(const OptimizerOptions& algorithm, bool is_matrix) {
  if (is_matrix) return {"momentum_buffer"};
  return state_names(elementwise_of(algorithm).value_or(AdamW{}));  // LAMB's are Adam's
}

std::vector<Slice> slices_of(const ShardedOptimizerOptions& options, const std::vector<ShardRun>& runs,
                             std::int64_t& parameters) {
  const auto* muon = std::get_if<Muon>(&options.algorithm);
  std::unordered_map<std::string, std::int64_t> numbers;
  std::vector<Slice> slices;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    check_run(runs[run], run);
    const auto values = runs[run].values.detach();
    std::int64_t begin = 0;
    bool is_closed = true;
    for (const Shard& shard : runs[run].shards) {
      const bool is_matrix = muon != nullptr && is_muon_matrix(shard, *muon);
      if (is_matrix) check_whole(shard);
      const auto count = shard.values.defined() ? shard.values.numel() : 0;
      const auto group = group_of(shard, options.groups);
      const bool alone = stands_alone(options, is_matrix);
      if (is_closed || alone || slices.back().group != group) slices.push_back({run, begin, 0, group, is_matrix});
      const auto number = numbers.try_emplace(shard.name, static_cast<std::int64_t>(numbers.size())).first->second;
      slices.back().shards.push_back({shard.name, shard.shape, shard.begin, count, 0, number});
      slices.back().count += count;
      begin += count;
      is_closed = alone;
    }
    for (Slice& slice : slices) {
      if (slice.run == run) slice.values = values.narrow(0, slice.begin, slice.count);
    }
  }
  for (Slice& slice : slices) slice.step = step_tensor(slice.values);
  parameters = static_cast<std::int64_t>(numbers.size());
  return slices;
}

void add_state(std::vector<Slice>& slices, const ShardedOptimizerOptions& options) {
  const double first = first_value(options.algorithm);
  for (Slice& slice : slices) {
    const auto names = state_names_of(options.algorithm, slice.is_matrix);
    for (std::size_t i = 0; i < names.size(); ++i)
      slice.states.push_back(at::full({slice.count}, first, slice.values.options().dtype(state_type(slice, options))));
  }
}

StateOnDisk::StateOnDisk(std::vector<Slice>& slices, const ShardedOptimizerOptions& options) {
  for (Slice& slice : slices) {
    slice.region = regions_.size();
    regions_.push_back(region_of(slice, options));
  }
  file_ = StateFile::make(options.state_folder, place_regions(regions_));
  std::vector<Slice*> all;
  for (Slice& slice : slices) {
    slice.states = file_->rows(regions_[slice.region], state_type(slice, options));
    all.push_back(&slice);
  }
  const double first = first_value(options.algorithm);
  if (first == 0) return;  // as the file is
  walk(all, true, [first](const std::vector<Stretch>& stretches) {
    for (const Stretch& stretch : stretches)
      for (const at::Tensor& state : stretch.states) state.fill_(first);
  });
}

void StateOnDisk::walk(const std::vector<Slice*>& slices, bool writes, const Act& act) {
  std::vector<std::vector<Slice*>> of_region(regions_.size());
  std::vector<std::size_t> used;
  for (Slice* slice : slices) {
    if (slice->count == 0) continue;
    if (of_region[slice->region].empty()) used.push_back(slice->region);
    of_region[slice->region].push_back(slice);
  }
  file_->walk(plan_jobs(regions_, used, StateFile::kJobBytes), writes,
              [&](const StateJob& job, std::byte* memory) { act(stretches_of(job, memory, of_region)); });
}

std::vector<Slice> divided_by_step(const std::vector<Slice>& slices) {
  std::vector<Slice> divided;
  for (const Slice& slice : slices) {
    std::int64_t begin = 0;
    for (auto first = slice.shards.begin(); first != slice.shards.end();) {
      const auto end =
          std::find_if(first, slice.shards.end(), [&](const ShardPlace& s) { return s.step != first->step; });
      std::int64_t count = 0;
      for (auto shard = first; shard != end; ++shard) count += shard->count;
      Slice part{slice.run, slice.begin + begin, count, slice.group, slice.is_matrix, {first, end}};
      part.values = slice.values.narrow(0, begin, count);
      for (const at::Tensor& state : slice.states) part.states.push_back(state.narrow(0, begin, count));
      part.step = step_tensor(slice.values);
      part.region = slice.region;
      part.region_begin = slice.region_begin + begin;
      divided.push_back(std::move(part));
      begin += count;
      first = end;
    }
  }
  return divided;
}

}  // namespace dtrain
