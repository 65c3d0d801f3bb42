#pragma once
// What the operations of a plan must know of all rows: gathered unit by unit, merged in the units' order.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/recipe/process_plan.h"
#include "data/rows/duplicates.h"
#include "data/rows/known.h"
#include "data/rows/operations.h"

namespace dtrain::data {

class Statistics {
 public:
  struct Limits {
    std::size_t first = 0, end = 0;     // units
    std::uint32_t buckets = 1;          // of rows that are compared
    std::int64_t counts_bytes_max = 0;  // of the different values of a column
  };
  Statistics(const ProcessPlan& plan, const Operations& operations, Limits limits, BatchStore& store);

  // Of an operation that gathers in this pass, as the rows are before it. By many threads at once. Throws DataError.
  void gather(std::size_t operation, const Rows& rows);
  // After all units of a pass: compares rows, for those operations that need it; then the rest.
  void compare(int pass, std::size_t threads);
  void finish(int pass);

  // Where several processes share a pass. What was found of the units of this object, as bytes; and the same of units
  // that another object has, which are among those of this one. Units come in any order.
  std::string packed(int pass) const;
  void add_packed(int pass, std::string_view packed);
  // The operations that compare() is for, and its parts: a part's result as bytes, and the same taken.
  std::vector<std::size_t> compared_in(int pass) const;
  std::size_t compare_parts(std::size_t operation) const;
  std::string compare_part(std::size_t operation, std::size_t part) const;
  void add_compared(std::size_t operation, std::string_view packed);

  const Known& known(std::size_t operation) const { return known_[operation]; }

  // For recipe.json: what prediction applies again.
  nlohmann::json to_json() const;

 private:
  struct Gathered {
    std::vector<Moments> moments;  // of each unit, from the first one
    std::mutex mutex;
    std::map<Value, std::int64_t> counts;
    std::int64_t counts_bytes = 0;
    std::unique_ptr<Duplicates> duplicates;
  };
  void count(const Operation& operation, const arrow::Array& values, Gathered& gathered) const;
  void finish_one(std::size_t number);
  void add_count(const Operation& operation, Gathered& gathered, Value value, std::int64_t count) const;

  const ProcessPlan& plan_;
  const Operations& operations_;
  const Limits limits_;
  std::vector<std::unique_ptr<Gathered>> gathered_;  // of each operation that needs one
  std::vector<Known> known_;
};

}  // namespace dtrain::data
