#pragma once
// What the operations of a plan must know of all rows: gathered unit by unit, merged in the units' order.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/recipe/process_plan.h"
#include "data/rows/duplicates.h"
#include "data/rows/known.h"
#include "data/rows/operations.h"

namespace dtrain::data {

class Statistics {
 public:
  struct Limits {
    std::size_t units = 0;
    std::uint32_t buckets = 1;          // of rows that are compared
    std::int64_t counts_bytes_max = 0;  // of the different values of a column
  };
  Statistics(const ProcessPlan& plan, const Operations& operations, Limits limits, BatchStore& store);

  // Of an operation that gathers in this pass, as the rows are before it. By many threads at once. Throws DataError.
  void gather(std::size_t operation, const Rows& rows);
  // After all units of a pass.
  void finish(int pass, std::size_t threads);
  const Known& known(std::size_t operation) const { return known_[operation]; }

  // For recipe.json: what prediction applies again.
  nlohmann::json to_json() const;

 private:
  struct Gathered {
    std::vector<Moments> moments;  // of each unit
    std::mutex mutex;
    std::map<Value, std::int64_t> counts;
    std::int64_t counts_bytes = 0;
    std::unique_ptr<Duplicates> duplicates;
  };
  void count(const Operation& operation, const arrow::Array& values, Gathered& gathered) const;
  void finish_one(std::size_t number, std::size_t threads);

  const ProcessPlan& plan_;
  const Operations& operations_;
  const Limits limits_;
  std::vector<std::unique_ptr<Gathered>> gathered_;  // of each operation that needs one
  std::vector<Known> known_;
};

}  // namespace dtrain::data
