#pragma once
// Batch prediction by a C++ program, as a worker of `dtrain predict ./program INPUT OUTPUT [ARGUMENT...]`.
//
//   struct Model {
//     torch::jit::Module module;
//
//     dtrain::ResultColumns operator()(const dtrain::InputRows& rows) {
//       const torch::InferenceMode guard;
//       return {{"y", module.forward({rows.at("x")}).toTensor()}};
//     }
//   };
//
//   dtrain::Predictor make(const std::vector<std::string>& arguments) {
//     dtrain::Predictor predictor;
//     predictor.columns = {"x"};
//     predictor.copied = {"id"};
//     predictor.predict = Model{torch::jit::load(arguments.at(0))};
//     return predictor;
//   }
//
//   int main(int argc, char** argv) { return dtrain::predict_main(argc, argv, make); }
//
// Each row group of INPUT gets its result once, whatever dies: docs/predict.md. Alone, without `dtrain predict`, the
// program does all of the work.
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "dtrain/data_errors.h"
#include "dtrain/errors.h"

namespace dtrain {

// The rows of a row group.
struct InputRows {
  std::map<std::string, torch::Tensor> tensors;
  std::int64_t rows = 0;

  const torch::Tensor& at(const std::string& name) const {
    if (const auto found = tensors.find(name); found != tensors.end()) return found->second;
    std::string names;
    for (const auto& each : tensors) names += (names.empty() ? "" : ", ") + each.first;
    throw DataError("dtrain: InputRows: no tensor is called '" + name + "'; there are: " + names);
  }
};

// A value for each row: a tensor [rows], or [rows, n], which becomes a column of lists, on any device; or texts.
using ResultColumn = std::variant<torch::Tensor, std::vector<std::string>>;
using ResultColumns = std::vector<std::pair<std::string, ResultColumn>>;

struct Predictor {
  // As ParquetLoaderOptions' members of these names: which columns become tensors, and what null values become. If
  // `columns` and `matrices` are both empty, every column becomes a tensor.
  std::vector<std::string> columns = {};
  std::map<std::string, std::vector<std::string>> matrices = {};
  std::map<std::string, double> fill = {};
  // Columns that go into the result as they are, whatever their types; before those that predict() returns.
  std::vector<std::string> copied = {};
  // Called once for each row group. All results have the same columns.
  std::function<ResultColumns(const InputRows& rows)> predict;
};

// `make` loads the model; it is called once, with the words after OUTPUT, and not at all if there is nothing left to
// do. An exception of make() or predict() is said on standard error, and ends this worker. Returns the exit code.
int predict_main(int argc, char** argv,
                 const std::function<Predictor(const std::vector<std::string>& arguments)>& make);

}  // namespace dtrain
