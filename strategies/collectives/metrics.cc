// Metrics: texts of numbers, and their sums in the order of the ranks.
#include "dtrain/metrics.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <sstream>
#include <utility>

#include "dtrain/errors.h"
#include "strategies/collectives/texts.h"

namespace dtrain {
namespace {

constexpr std::array kKinds = {"mean", "sum", "min", "max"};

torch::Tensor number(double value) { return torch::full({}, value, torch::kDouble); }

ConfigError two_kinds(const std::string& name, std::size_t first, std::size_t second) {
  return ConfigError(
      fmt::format("dtrain: the metric {} is both a {} and a {}", name, kKinds.at(first), kKinds.at(second)));
}

}  // namespace

Metrics::Metrics(Group group) : group_(std::move(group)) {}

void Metrics::mean(const std::string& name, const torch::Tensor& value, double weight) {
  add(name, Kind::mean, value, weight);
}
void Metrics::mean(const std::string& name, double value, double weight) {
  add(name, Kind::mean, number(value), weight);
}
void Metrics::sum(const std::string& name, const torch::Tensor& value) { add(name, Kind::sum, value, 1); }
void Metrics::sum(const std::string& name, double value) { add(name, Kind::sum, number(value), 1); }
void Metrics::min(const std::string& name, const torch::Tensor& value) { add(name, Kind::min, value, 1); }
void Metrics::min(const std::string& name, double value) { add(name, Kind::min, number(value), 1); }
void Metrics::max(const std::string& name, const torch::Tensor& value) { add(name, Kind::max, value, 1); }
void Metrics::max(const std::string& name, double value) { add(name, Kind::max, number(value), 1); }

void Metrics::add(const std::string& name, Kind kind, const torch::Tensor& value, double weight) {
  const torch::NoGradGuard no_grad;
  if (!value.defined() || value.numel() != 1)
    throw ConfigError(fmt::format("dtrain: the metric {} is no number, nor a tensor of one element", name));
  if (!(weight >= 0) || std::isinf(weight))
    throw ConfigError(fmt::format("dtrain: the metric {} has the weight {}; it is 0 or more", name, weight));
  if (name.find('\n') != std::string::npos) throw ConfigError("dtrain: the name of a metric is one line");
  const torch::Tensor one = value.detach().reshape({}).to(torch::kDouble);
  const auto [place, is_new] = entries_.try_emplace(name, Entry{kind});
  Entry& entry = place->second;
  if (entry.kind != kind) throw two_kinds(name, static_cast<std::size_t>(entry.kind), static_cast<std::size_t>(kind));
  if (kind == Kind::mean) {
    if (weight == 0) return;
    const torch::Tensor weighted = one * weight;
    entry.value = entry.value.defined() ? entry.value.to(one.device()) + weighted : weighted;
    entry.weight += weight;
  } else if (!entry.value.defined()) {
    entry.value = one.clone();
  } else if (kind == Kind::sum) {
    entry.value = entry.value.to(one.device()) + one;
  } else {
    const torch::Tensor before = entry.value.to(one.device());
    entry.value = kind == Kind::min ? torch::minimum(before, one) : torch::maximum(before, one);
  }
}

std::map<std::string, double> Metrics::reduce() {
  std::string own;
  for (auto& [name, entry] : entries_) {
    if (!entry.value.defined()) continue;
    const auto value = std::bit_cast<std::uint64_t>(entry.value.item<double>());
    own += fmt::format("{} {} {} {}\n", static_cast<int>(entry.kind), std::bit_cast<std::uint64_t>(entry.weight), value,
                       name);
  }
  entries_.clear();
  struct Sum {
    std::size_t kind = 0;
    double weight = 0, value = 0;
  };
  std::map<std::string, Sum> sums;
  for (const std::string& text : all_gather_texts(group_.process_group(), own)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::size_t kind = 0;
      std::uint64_t weight_bits = 0, value_bits = 0;
      std::string name;
      words >> kind >> weight_bits >> value_bits;
      std::getline(words.ignore(), name);
      const auto weight = std::bit_cast<double>(weight_bits), value = std::bit_cast<double>(value_bits);
      const auto [place, is_new] = sums.try_emplace(name, Sum{kind, weight, value});
      if (is_new) continue;
      Sum& sum = place->second;
      if (sum.kind != kind) throw two_kinds(place->first, sum.kind, kind);
      sum.weight += weight;
      if (static_cast<Kind>(kind) == Kind::min)
        sum.value = value < sum.value || std::isnan(value) ? value : sum.value;
      else if (static_cast<Kind>(kind) == Kind::max)
        sum.value = value > sum.value || std::isnan(value) ? value : sum.value;
      else
        sum.value += value;
    }
  }
  std::map<std::string, double> result;
  for (const auto& [name, sum] : sums)
    result[name] = static_cast<Kind>(sum.kind) == Kind::mean ? sum.value / sum.weight : sum.value;
  return result;
}

}  // namespace dtrain
