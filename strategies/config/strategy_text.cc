// Reads our own keys of a strategy; see include/dtrain/strategy.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "dtrain/strategy.h"
#include "strategies/config/formats.h"

namespace dtrain {
namespace {

using StrategyJson = config::Json;

constexpr std::array<std::pair<std::string_view, StrategyKind>, 4> kKinds{{{"ddp", StrategyKind::ddp},
                                                                           {"zero1", StrategyKind::zero1},
                                                                           {"zero2", StrategyKind::zero2},
                                                                           {"fsdp", StrategyKind::fsdp}}};
constexpr std::array<std::pair<std::string_view, Precision>, 4> kPrecisions{{{"same", Precision::same},
                                                                             {"float32", Precision::float32},
                                                                             {"bfloat16", Precision::bfloat16},
                                                                             {"float16", Precision::float16}}};

template <class Table>
std::string words_of(const Table& table) {
  std::vector<std::string_view> words;
  for (const auto& each : table) words.push_back(each.first);
  return fmt::format("{}", fmt::join(words, ", "));
}

template <class Table>
auto from_word(const Table& table, const std::string& key, const std::string& word) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.first == word; });
  if (found != table.end()) return found->second;
  throw ConfigError(fmt::format("dtrain: strategy: {} '{}' is not known; one of {}", key, word, words_of(table)));
}

[[noreturn]] void refuse_value(const std::string& key, const StrategyJson& value, std::string_view wanted) {
  throw ConfigError(fmt::format("dtrain: strategy: {} is {}, and must be {}", key, value.dump(), wanted));
}

bool to_bool(const std::string& key, const StrategyJson& value) {
  if (!value.is_boolean()) refuse_value(key, value, "true or false");
  return value.get<bool>();
}

std::int64_t to_count(const std::string& key, const StrategyJson& value, std::int64_t low, std::int64_t high) {
  const bool whole = value.is_number_integer() &&
                     !(value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high));
  if (!whole || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    refuse_value(key, value, fmt::format("a whole number from {} to {}", low, high));
  return value.get<std::int64_t>();
}

std::vector<std::string> to_names(const std::string& key, const StrategyJson& value) {
  const bool names = value.is_array() && !value.empty() &&
                     std::all_of(value.begin(), value.end(), [](const auto& each) { return each.is_string(); });
  if (!names) refuse_value(key, value, R"(a list of names, such as ["Block"])");
  return value.get<std::vector<std::string>>();
}

// Ranks of other hosts, and of other working directories, have the same name.
std::string to_folder(const std::string& key, const StrategyJson& value) {
  if (!value.is_string() || !value.get<std::string>().starts_with('/'))
    refuse_value(key, value, "the path of a folder, from / on");
  return value.get<std::string>();
}

Precision to_precision(const std::string& key, const StrategyJson& value) {
  if (!value.is_string()) refuse_value(key, value, fmt::format("one of {}", words_of(kPrecisions)));
  return from_word(kPrecisions, key, value.get<std::string>());
}

void read_precisions(const StrategyJson& value, Strategy& strategy) {
  if (!value.is_object()) refuse_value("mixed_precision", value, R"(as {"param": "bfloat16", "reduce": "float32"})");
  for (const auto& item : value.items()) {
    const std::string key = "mixed_precision." + item.key();
    if (item.key() == "param") {
      strategy.param = to_precision(key, item.value());
    } else if (item.key() == "reduce") {
      strategy.reduce = to_precision(key, item.value());
    } else if (item.key() == "output") {
      strategy.output = to_precision(key, item.value());
    } else {
      throw ConfigError(
          fmt::format("dtrain: strategy: unknown key {}; mixed_precision has param, reduce and output", key));
    }
  }
}

constexpr std::int64_t kManyRanks = 1 << 20, kManyBytes = std::int64_t{1} << 40;

struct Key {
  std::string_view name;
  std::vector<StrategyKind> kinds;  // that have it
  void (*read)(const std::string& key, const StrategyJson& value, Strategy& strategy);
};

const std::vector<Key>& keys() {
  using Kind = StrategyKind;
  static const std::vector<Key> all{
      {"mixed_precision",
       {Kind::zero1, Kind::zero2, Kind::fsdp},
       [](const std::string&, const StrategyJson& value, Strategy& strategy) { read_precisions(value, strategy); }},
      {"shard_size",
       {Kind::zero1, Kind::zero2, Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.shard_size = static_cast<int>(to_count(key, value, 0, kManyRanks));
       }},
      {"bucket_bytes",
       {Kind::ddp, Kind::zero1, Kind::zero2},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.bucket_bytes = to_count(key, value, 1, kManyBytes);
       }},
      {"deterministic",
       {Kind::zero1, Kind::zero2, Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.deterministic = to_bool(key, value);
       }},
      {"find_unused_parameters",
       {Kind::ddp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.find_unused_parameters = to_bool(key, value);
       }},
      {"reshard_after_forward",
       {Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         if (!value.is_boolean() && !value.is_number()) refuse_value(key, value, "true, false or a number of ranks");
         strategy.reshard_size = value.is_number() ? static_cast<int>(to_count(key, value, 2, kManyRanks)) : 0;
         strategy.reshard_after_forward = value.is_number() || value.get<bool>();
       }},
      {"prefetch",
       {Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.prefetch = static_cast<int>(to_count(key, value, 0, 64));
       }},
      {"prefetch_bytes",
       {Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.prefetch_bytes = to_count(key, value, 0, kManyBytes);
       }},
      {"unit_elements",
       {Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.unit_elements = to_count(key, value, 0, kManyBytes);
       }},
      {"whole_elements",
       {Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.whole_elements = to_count(key, value, 0, kManyBytes);
       }},
      {"units",
       {Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.units = to_names(key, value);
       }},
      {"one_copy",
       {Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.one_copy = to_bool(key, value);
       }},
      {"cpu_offload",
       {Kind::zero1, Kind::zero2, Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.cpu_offload = to_bool(key, value);
       }},
      {"state_folder",
       {Kind::ddp, Kind::zero1, Kind::zero2, Kind::fsdp},
       [](const std::string& key, const StrategyJson& value, Strategy& strategy) {
         strategy.state_folder = to_folder(key, value);
       }}};
  return all;
}

bool has(const Key& key, StrategyKind kind) {
  return std::find(key.kinds.begin(), key.kinds.end(), kind) != key.kinds.end();
}

void read_key(const std::string& name, const StrategyJson& value, Strategy& strategy) {
  std::vector<std::string_view> known{"type"};
  for (const Key& key : keys()) {
    if (!has(key, strategy.kind)) continue;
    if (key.name == name) return key.read(name, value, strategy);
    known.push_back(key.name);
  }
  throw ConfigError(fmt::format("dtrain: strategy: {} does not have the key '{}'; its keys are {}",
                                name_of(strategy.kind), name, fmt::join(known, ", ")));
}

}  // namespace

std::string name_of(StrategyKind kind) {
  const auto found = std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& each) { return each.second == kind; });
  return std::string(found->first);
}

namespace config {

Strategy read_own(const Json& json, const std::string& text) {
  Strategy strategy;
  const bool has_type = json.is_object() && json.contains("type");
  const Json type = has_type ? json["type"] : json;
  if (!type.is_string()) {
    throw ConfigError(fmt::format(
        "dtrain: strategy '{}' must be a word, one of {}, or JSON: such as {{\"type\": \"fsdp\"}}, or a config of "
        "DeepSpeed, Accelerate or Ludwig (docs/training/config.md)",
        text.substr(0, 200), words_of(kKinds)));
  }
  strategy.kind = from_word(kKinds, "type", type.get<std::string>());
  if (!has_type) return strategy;
  for (const auto& item : json.items()) {
    if (item.key() != "type") read_key(item.key(), item.value(), strategy);
  }
  return strategy;
}

}  // namespace config
}  // namespace dtrain
