#pragma once
// Rows to buckets, and back out of a bucket in the order of their keys.
#include <arrow/record_batch.h>
#include <arrow/table.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dtrain::data {

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

struct Scattered {
  std::shared_ptr<arrow::RecordBatch> rows;
  std::vector<std::uint32_t> ends;  // of the buckets
};

// The rows of each bucket in turn; within one they are in the order in which they were.
Scattered scatter(const std::string& where, const arrow::RecordBatch& rows, const std::vector<std::uint32_t>& buckets,
                  std::uint32_t count);

// The rows in memory of their own: a slice keeps the memory of all rows that it was cut from.
std::shared_ptr<arrow::RecordBatch> copied(const std::string& where, const arrow::RecordBatch& rows);

// The rows of all batches together.
std::shared_ptr<arrow::RecordBatch> joined(const std::string& where, const Batches& batches);

// The rows in the order of the numbers in the last column, which is left out.
std::shared_ptr<arrow::RecordBatch> ordered(const std::string& where, const arrow::RecordBatch& rows);

}  // namespace dtrain::data
