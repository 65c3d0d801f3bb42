#pragma once
// How the reading of a source is divided, by the memory that there may be.
#include <arrow/type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/recipe/process_plan.h"
#include "data/recipe/recipe.h"
#include "data/recipe/work_plan.h"
#include "data/source/source.h"

namespace dtrain::data {

// What the recipe says, or a quarter of what is free.
std::int64_t memory_limit(const Recipe& recipe);
// Of a unit in memory, at its largest.
std::int64_t bytes_in_work(const Source& source, std::size_t unit, const Growth& growth);
// Throws DataError if a unit is too large.
WorkPlan work_of(const Recipe& recipe, const Source& source, const Growth& growth, std::int64_t memory);
// Of the plan's slots, as they are read.
std::vector<std::shared_ptr<arrow::DataType>> types_read(const Source& source, const ProcessPlan& plan);

}  // namespace dtrain::data
