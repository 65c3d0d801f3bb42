#pragma once
// Applies a recipe that has been carried out to raw rows: FOLDER/rows/part-00000.parquet and so on, in the order of the
// input. In parallel and in bounded memory; the rows are the same however many threads there are.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/process/process.h"
#include "data/recipe/apply_plan.h"

namespace dtrain::data {

// The folder is empty. Returns the number of rows. Throws RecipeError or DataError.
std::int64_t apply(const CarriedOut& then, const ApplyAsked& asked, const std::vector<std::string>& input,
                   const std::filesystem::path& folder, const ProgressSink& progress);

}  // namespace dtrain::data
