#pragma once
// Carries out a recipe: reads the input in parallel, finds the statistics that its steps need, and writes Parquet
// files. Memory is bounded, and the files are the same however many threads there are.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/process/progress.h"
#include "data/recipe/recipe.h"

namespace dtrain::data {

struct PartReport {
  std::string name;
  std::int64_t rows = 0, bytes = 0;
  std::size_t files = 0;
};

struct ProcessReport {
  std::int64_t rows_read = 0;
  std::vector<PartReport> parts;
  std::size_t partitions = 0;
  std::size_t threads = 0;
  int passes = 1;
  std::int64_t memory_limit_bytes = 0;
  std::int64_t spilled_bytes = 0;  // rows that waited in a file, not in memory
};

// Fills a folder, which must be there and be empty: FOLDER/train/part-00000.parquet and so on, a folder for each part
// of the split, and FOLDER/recipe.json with the statistics. Nothing is written elsewhere. After an error the folder is
// empty again. Throws RecipeError (the recipe does not fit the columns) or DataError (a file or the folder cannot be
// used).
ProcessReport process(const Recipe& recipe, const std::filesystem::path& folder, const ProgressSink& progress);

// It is there, and empty. Throws DataError.
void check_folder(const std::filesystem::path& folder);

// Removes what is in the folder, as far as it can be.
void clear_folder(const std::filesystem::path& folder);

}  // namespace dtrain::data
