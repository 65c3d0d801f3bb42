#pragma once
// Finds the rows that are equal to an earlier one. Rows are put into buckets by the hash of their values, and compared
// within a bucket: only rows of one bucket are in memory at a time.
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/rows/batch_store.h"
#include "data/rows/rows.h"

namespace dtrain::data {

class Duplicates {
 public:
  // Of the units from `first` to `end`.
  Duplicates(std::string where, std::vector<std::size_t> slots, std::size_t first, std::size_t end,
             std::uint32_t buckets, BatchStore& store);

  // By many threads at once, each unit once.
  void add(const Rows& rows);
  // What add() has found of these units, as bytes; and the same of units that another process has added.
  std::string packed() const;
  void add_packed(std::string_view packed);

  // After all units: compares the rows of a bucket. By many threads at once.
  struct Row {
    std::uint64_t unit;
    std::uint32_t number;
  };
  std::vector<Row> repeated_in(std::uint32_t bucket) const;
  void drop(const std::vector<Row>& rows);
  std::uint32_t buckets() const { return buckets_; }
  // For each unit the numbers of the rows that go, ascending. Once, after all buckets.
  std::vector<std::vector<std::uint32_t>> dropped();

 private:
  const std::string where_;
  const std::vector<std::size_t> slots_;
  const std::size_t first_;
  const std::uint32_t buckets_;
  BatchStore& store_;
  std::vector<BatchStore::Kept> kept_;  // of each unit, a piece for each bucket
  std::mutex mutex_;
  std::vector<std::vector<std::uint32_t>> dropped_;
};

}  // namespace dtrain::data
