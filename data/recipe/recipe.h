#pragma once
// A recipe: what becomes of raw files before training. Pure.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/recipe/column_type.h"
#include "dtrain/errors.h"

namespace dtrain::data {

// A key of the recipe makes no sense. what() is one line that begins with the path of the key.
struct RecipeError : ConfigError {
  RecipeError(std::string of, const std::string& text)
      : ConfigError("dtrain: " + of + ": " + text), path(std::move(of)) {}
  std::string path;  // "dataset.steps[2].cast.x"
};

// Unsigned: only what is found in columns of uint64.
using Value = std::variant<bool, std::int64_t, double, std::string, std::uint64_t>;

// Columns of these names stay, in this order.
struct Select {
  std::vector<std::string> columns;
};

// All at once, so two names can be exchanged.
struct Rename {
  std::vector<std::pair<std::string, std::string>> names;  // old, new
};

struct Cast {
  std::vector<std::pair<std::string, ColumnType>> types;
};

enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal };

struct Condition {
  std::string column;
  Comparison op;
  Value value;
};

// Rows stay for which all conditions hold. None holds for a null.
struct Filter {
  std::vector<Condition> conditions;
};

enum class FillWith { mean, mode };

// What is null or NaN becomes a constant, or a statistic of the column.
struct Fill {
  std::vector<std::pair<std::string, std::variant<Value, FillWith>>> columns;
};

enum class Scale { zscore, minmax };

struct Normalize {
  std::vector<std::pair<std::string, Scale>> columns;
};

struct VocabularyOf {
  std::int64_t size = 0;  // entries at most
  bool one_hot = false;   // else an index
};

// Values become numbers: 1 is the most frequent value. 0 is what is null, or not among the `size` most frequent ones.
struct Vocabulary {
  std::vector<std::pair<std::string, VocabularyOf>> columns;
};

// Of rows that are equal in these columns the first one stays.
struct Dedup {
  std::vector<std::string> columns;
};

using Step = std::variant<Select, Rename, Cast, Filter, Fill, Normalize, Vocabulary, Dedup>;

// Rows with one value of `by` go into one part. Shares add up to 1.
struct Split {
  std::optional<std::string> by;  // none: the row's number
  std::vector<std::pair<std::string, double>> shares;
};

enum class InputFormat { parquet, csv, json, ipc };

struct Recipe {
  std::vector<std::string> input;  // files, folders and patterns
  std::optional<InputFormat> format;
  std::vector<Step> steps;
  Split split;  // all rows are `train`, if the recipe has none
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::optional<std::int64_t> parallelism;
  bool persist = true;
  std::optional<std::int64_t> memory_limit_bytes;
  std::optional<std::int64_t> threads;
  std::int64_t row_group_rows = 16384;
  nlohmann::json text;  // as it was given
};

// Throws RecipeError.
Recipe parse_recipe(const nlohmann::json& text);

// The types that the recipe's casts give to columns of the input before any other step sees their values. Text files
// are read as these types.
std::vector<std::pair<std::string, ColumnType>> types_to_read(const Recipe& recipe);

}  // namespace dtrain::data
