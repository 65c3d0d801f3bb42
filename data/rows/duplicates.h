#pragma once
// Finds the rows that are equal to an earlier one. Rows are put into buckets by the hash of their values, and compared
// within a bucket: only rows of one bucket are in memory at a time.
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/rows/batch_store.h"
#include "data/rows/rows.h"

namespace dtrain::data {

class Duplicates {
 public:
  Duplicates(std::string where, std::vector<std::size_t> slots, std::size_t units, std::uint32_t buckets,
             BatchStore& store);

  // By many threads at once, each unit once.
  void add(const Rows& rows);
  // For each unit the numbers of the rows that go, ascending. Once, after all units.
  std::vector<std::vector<std::uint32_t>> find(std::size_t threads);

 private:
  void find_in(std::uint32_t bucket);

  const std::string where_;
  const std::vector<std::size_t> slots_;
  const std::uint32_t buckets_;
  BatchStore& store_;
  std::vector<BatchStore::Kept> kept_;  // of each unit, a piece for each bucket
  std::mutex mutex_;
  std::vector<std::vector<std::uint32_t>> dropped_;
};

}  // namespace dtrain::data
