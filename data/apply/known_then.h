#pragma once
// What an operation needs to know, from recipe.json.
#include <arrow/type.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "data/recipe/process_plan.h"
#include "data/rows/known.h"

namespace dtrain::data {

// `statistics`: as Statistics::to_json() writes them. `before`: the column's type before the operation. Throws
// RecipeError with the operation's path.
Known known_then(const Operation& operation, const nlohmann::json& statistics,
                 const std::shared_ptr<arrow::DataType>& before);

}  // namespace dtrain::data
