#pragma once
// Metrics: numbers that each rank collects, and that all ranks get over all of them: a loss by its rows, a count, the
// longest time.
//
//   dtrain::Metrics metrics(session.world());
//   for (const auto& [x, y] : batches) {
//     ...
//     metrics.mean("loss", loss, x.size(0));   // this rank's mean over its rows
//     metrics.sum("right", right);
//     metrics.max("seconds", seconds);
//   }
//   const auto all = metrics.reduce();         // all.at("loss"): the mean over the rows of all ranks
#include <torch/torch.h>

#include <map>
#include <string>

#include "dtrain/group.h"

namespace dtrain {

// One thread at a time uses a Metrics.
class Metrics {
 public:
  explicit Metrics(Group group);

  // No collectives. `value` is a number or a tensor of one element, of any number type; its gradient is not used. What
  // is on a GPU is not waited for. A name has one kind: mean, sum, min or max; another one throws ConfigError.
  //
  // A mean counts as many times as `weight` says: rows or tokens, for instance. A weight of 0 adds nothing.
  void mean(const std::string& name, const torch::Tensor& value, double weight = 1);
  void mean(const std::string& name, double value, double weight = 1);
  void sum(const std::string& name, const torch::Tensor& value);
  void sum(const std::string& name, double value);
  void min(const std::string& name, const torch::Tensor& value);
  void min(const std::string& name, double value);
  void max(const std::string& name, const torch::Tensor& value);
  void max(const std::string& name, double value);

  // Collective of the group. What all ranks have collected since the last call, by name; then nothing is collected.
  // Each rank tells the others its numbers, as text, and adds them up in the order of the ranks: all ranks get the same
  // bits. A rank may have nothing of a name. A mean whose weights are all 0 is not in the result. Throws ConfigError on
  // all ranks if two ranks have one name with two kinds, and CollectiveError.
  std::map<std::string, double> reduce();

 private:
  enum class Kind { mean, sum, min, max };
  struct Entry {
    Kind kind{};
    torch::Tensor value{};  // float64, one element
    double weight = 0;      // of a mean
  };
  void add(const std::string& name, Kind kind, const torch::Tensor& value, double weight);

  Group group_;
  std::map<std::string, Entry> entries_;
};

}  // namespace dtrain
