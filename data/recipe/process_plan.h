#pragma once
// What a recipe does to columns of certain types: operations, and the passes over the rows that they need. Pure.
//
// A statistic needs a pass over all rows. It is gathered in the first pass in which its column and the rows are known:
// all statistics that operations before it use were gathered in earlier passes. The last pass writes the rows.
//
//   filter x          pass 0
//   fill x: mean      gathered in pass 0, applied from pass 1 on
//   normalize y       gathered in pass 0, applied from pass 1 on
//   normalize x       gathered in pass 1, applied from pass 2 on, the last
//
// Names are gone here: a slot is a column from the file to the output, whatever it is called on the way.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/recipe/recipe.h"

namespace dtrain::data {

struct FillTo {
  std::variant<Value, FillWith> with;
};

struct Distinct {};

// `how` is the type to cast to, the conditions of a filter (one for each slot), ...
struct Operation {
  std::variant<ColumnType, std::vector<Condition>, FillTo, Scale, VocabularyOf, Distinct> how;
  std::string path;    // of its key: "dataset.steps[2].cast.x"
  std::string column;  // its name there; of several the first one's
  std::vector<std::size_t> slots;
  std::optional<int> gathered;  // the pass that finds what it must know
  int applied = 0;              // in each pass from this one on
};

struct OutputColumn {
  std::string name;
  std::size_t slot;
};

struct ProcessPlan {
  std::vector<std::size_t> read;  // slot -> column of the source
  std::vector<Operation> operations;
  std::vector<OutputColumn> output;
  std::vector<ColumnType> types;          // of each slot in the end
  std::optional<std::size_t> split_slot;  // none: by the row's number
  int passes = 1;                         // with the last one

  // The slots that a pass needs: for the operations that it applies, and for what it gathers.
  std::vector<bool> slots_of_pass(int pass) const;
};

// How much casts and one_hot widen the rows, about.
struct Growth {
  double times = 1;            // at least 1
  std::int64_t row_bytes = 0;  // of a row that becomes wider, in the end; else 0

  // Of a unit's rows at their widest. `rows`: 0 if nobody knows. Texts that repeat take little in a file of Parquet's,
  // and a list that is made of one as much as any other.
  std::int64_t bytes(std::int64_t unit_bytes, std::int64_t rows) const;
};
Growth growth_of(const ProcessPlan& plan, const std::vector<SourceColumn>& columns);

// Throws RecipeError: a column is missing, or has a type that a step cannot use.
ProcessPlan plan_process(const Recipe& recipe, const std::vector<SourceColumn>& columns);

}  // namespace dtrain::data
