// Tested by test/process/data/apply_test.py.
#include "data/apply/known_then.h"

#include "data/rows/operations.h"

namespace dtrain::data {
namespace {

Value value_then(const nlohmann::json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) return json.get<std::uint64_t>();
  return json.get<std::int64_t>();
}

Scaling scaling_then(Scale scale, const nlohmann::json& one) {
  if (scale == Scale::zscore) {
    const double deviation = one.at("deviation").get<double>();
    return {one.at("mean").get<double>(), deviation > 0 ? 1 / deviation : 0};
  }
  if (one.at("least").is_null()) return {};  // there was no value
  Moments range;
  range.least = one.at("least").get<double>();
  range.most = one.at("most").get<double>();
  return minmax(range);
}

}  // namespace

Known known_then(const Operation& operation, const nlohmann::json& statistics,
                 const std::shared_ptr<arrow::DataType>& before) {
  Known known;
  if (!operation.gathered) return known;
  try {
    for (const auto& one : statistics) {
      if (one.at("path") != operation.path) continue;
      if (const auto* scale = std::get_if<Scale>(&operation.how)) {
        known.scaling = scaling_then(*scale, one);
      } else if (one.contains("mean")) {
        known.moments.mean = one.at("mean").get<double>();
      } else {
        for (const auto& value : one.at("values")) known.values.push_back(value_then(value));
        known.array = array_of(operation.path, known.values, before);
      }
      return known;
    }
  } catch (const nlohmann::json::exception&) {
  }
  throw RecipeError(operation.path,
                    "the recipe.json does not have what this step has found; `dtrain preprocess` writes "
                    "it whole");
}

}  // namespace dtrain::data
