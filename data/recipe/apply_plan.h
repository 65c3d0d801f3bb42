#pragma once
// What becomes of raw rows at prediction: the steps of a recipe that has been carried out, with what it found then.
// Each row that comes in goes out. Pure.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/recipe/process_plan.h"
#include "data/recipe/recipe.h"

namespace dtrain::data {

// A recipe.json.
struct CarriedOut {
  Recipe recipe;
  std::vector<SourceColumn> input;   // the columns of the raw files, then; none: it does not say
  std::vector<SourceColumn> output;  // their types are in type_name
  nlohmann::json statistics;         // of each step that has one
};
// Throws RecipeError, whose path is `file`.
CarriedOut parse_carried_out(const nlohmann::json& json, const std::string& file);

struct ApplyAsked {
  bool filter = false;                    // the steps `filter` count
  std::vector<std::string> without = {};  // columns of the output, which are left out
  std::vector<std::string> keep = {};     // columns of the raw files that come after those of the recipe, as they are
  // Of the machine that applies it, and not of that of training. None: as preprocessing chooses.
  std::optional<std::int64_t> parallelism = {}, memory_limit_bytes = {};
};

// The operations in the order in which they are done, all in one pass. A column whose type is not what it was then is
// cast first. `dedup` is left out, and without `filter` the filters are. A column of the files that is kept has a slot
// of its own. `found`: the columns of the raw files, the first of which is `file`. Throws RecipeError or DataError.
ProcessPlan plan_to_apply(const CarriedOut& then, const ApplyAsked& asked, const std::vector<SourceColumn>& found,
                          const std::string& file);

// How the files are read: text as the types that the columns had then. What is kept of CSV files and was not there
// then is text.
Recipe recipe_to_read(const CarriedOut& then, const ApplyAsked& asked, const std::vector<std::string>& input);

}  // namespace dtrain::data
