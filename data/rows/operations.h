#pragma once
// Carries out the operations of a plan on the rows of a unit. All it needs to know are the plan and what was found.
#include <arrow/scalar.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/recipe/process_plan.h"
#include "data/rows/known.h"
#include "data/rows/rows.h"

namespace dtrain::data {

class Operations {
 public:
  // "FILE, row 17" of a row
  using Where = std::function<std::string(std::size_t unit, std::int64_t row)>;

  // `types`: of the slots as they are read. Throws RecipeError: a constant does not fit the type of its column.
  Operations(const ProcessPlan& plan, std::vector<std::shared_ptr<arrow::DataType>> types, Where where);

  // Throws DataError.
  void apply(std::size_t operation, const Known& known, Rows& rows) const;

  // Of the slots in the end.
  const std::vector<std::shared_ptr<arrow::DataType>>& types() const { return types_; }
  // Of an operation's first slot before the operation.
  const std::shared_ptr<arrow::DataType>& type_before(std::size_t operation) const { return before_[operation]; }

 private:
  std::shared_ptr<arrow::Scalar> scalar(const Value& value, const std::shared_ptr<arrow::DataType>& type,
                                        const std::string& path) const;
  void cast(const Operation& operation, Rows& rows) const;
  void filter(std::size_t number, Rows& rows) const;
  void fill(std::size_t number, const Known& known, Rows& rows) const;
  void normalize(const Operation& operation, const Known& known, Rows& rows) const;
  void index(const Operation& operation, const Known& known, Rows& rows) const;
  void drop(const Operation& operation, const Known& known, Rows& rows) const;

  const ProcessPlan& plan_;
  std::vector<std::shared_ptr<arrow::DataType>> types_;
  std::vector<std::shared_ptr<arrow::DataType>> before_;
  std::vector<std::vector<std::shared_ptr<arrow::Scalar>>> constants_;  // of each operation
  Where where_;
};

// An array of values of one type. Throws DataError, with `where`, if one does not fit.
std::shared_ptr<arrow::Array> array_of(const std::string& where, const std::vector<Value>& values,
                                       const std::shared_ptr<arrow::DataType>& type);

// Numbers as float or double: double stays, and what is no float of 32 bits becomes one.
std::shared_ptr<arrow::Array> as_floats(const std::string& where, const std::shared_ptr<arrow::Array>& numbers);

}  // namespace dtrain::data
