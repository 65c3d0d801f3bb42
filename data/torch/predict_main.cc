// Predictions with torch's tensors; see include/dtrain/predict.h.
// Tested by test/process/data/predict_program_test.py.
#include <c10/util/Exception.h>
#include <torch/types.h>

#include <optional>
#include <utility>

#include "data/predict/predict_program.h"
#include "data/torch/host_tensors.h"
#include "dtrain/predict.h"

namespace dtrain {
namespace {

std::optional<data::ElementType> element_type_of(at::ScalarType type) {
  using data::ElementType;
  for (const auto each :
       {ElementType::boolean, ElementType::uint8, ElementType::int8, ElementType::int16, ElementType::int32,
        ElementType::int64, ElementType::float16, ElementType::float32, ElementType::float64})
    if (data::scalar_type(each) == type) return each;
  return std::nullopt;
}

// In the memory of this machine, row by row, and of a type that a column can have.
torch::Tensor as_written(const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.defined() || tensor.dim() < 1 || tensor.dim() > 2)
    throw DataError("dtrain: predict(): column '" + name + "' is no tensor [rows] or [rows, n]");
  torch::Tensor host = tensor.detach().cpu().contiguous();
  if (host.scalar_type() == at::kBFloat16) host = host.to(at::kFloat);
  if (!element_type_of(host.scalar_type()))
    throw DataError("dtrain: predict(): column '" + name + "' is a tensor of " + c10::toString(host.scalar_type()) +
                    "; return bool, uint8, int8 to int64, or float16 to float64");
  return host;
}

InputRows input_rows(const std::vector<std::string>& names, data::HostBatch batch) {
  InputRows rows;
  rows.rows = batch.rows;
  for (std::size_t i = 0; i < names.size(); ++i)
    rows.tensors.emplace(names[i], data::tensor_of(std::move(batch.tensors[i])));
  return rows;
}

// What torch throws has a long trace of the stack in its text.
template <typename Call>
auto without_trace(const Call& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  }
}

data::HostPredictor host_predictor(Predictor predictor) {
  if (!predictor.predict) throw ConfigError("dtrain: Predictor: predict is missing");
  data::HostPredictor host;
  host.wanted = {std::move(predictor.columns), std::move(predictor.matrices), std::move(predictor.fill),
                 std::move(predictor.copied)};
  host.predict = [predict = std::move(predictor.predict)](const std::vector<std::string>& names, data::HostBatch batch,
                                                          const std::function<void(const data::HostColumns&)>& take) {
    std::vector<torch::Tensor> alive;
    data::HostColumns columns;
    without_trace([&] {
      for (auto& [name, column] : predict(input_rows(names, std::move(batch)))) {
        if (auto* texts = std::get_if<std::vector<std::string>>(&column)) {
          columns.emplace_back(name, std::move(*texts));
          continue;
        }
        alive.push_back(as_written(name, std::get<torch::Tensor>(column)));
        const torch::Tensor& tensor = alive.back();
        columns.emplace_back(name, data::HostValues{*element_type_of(tensor.scalar_type()), tensor.sizes().vec(),
                                                    static_cast<const std::byte*>(tensor.const_data_ptr())});
      }
    });
    take(columns);
  };
  return host;
}

}  // namespace

int predict_main(int argc, char** argv,
                 const std::function<Predictor(const std::vector<std::string>& arguments)>& make) {
  return data::predict_program(argc, argv, [&](const std::vector<std::string>& arguments) {
    return without_trace([&] { return host_predictor(make(arguments)); });
  });
}

}  // namespace dtrain
