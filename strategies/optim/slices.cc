#include "strategies/optim/slices.h"

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

void add_state(Slice& slice, const ShardedOptimizerOptions& options) {
  const auto type = options.state_dtype.value_or(slice.values.scalar_type());
  const auto names = state_names_of(options.algorithm, slice.is_matrix);
  for (std::size_t i = 0; i < names.size(); ++i)
    slice.states.push_back(at::full({slice.count}, first_value(options.algorithm), slice.values.options().dtype(type)));
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
  for (Slice& slice : slices) {
    add_state(slice, options);
    slice.step = step_tensor(slice.values);
  }
  parameters = static_cast<std::int64_t>(numbers.size());
  return slices;
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
      divided.push_back(std::move(part));
      begin += count;
      first = end;
    }
  }
  return divided;
}

}  // namespace dtrain
