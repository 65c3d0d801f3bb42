#include "data/rows/scatter.h"

#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/compute/api.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "data/arrow/arrow_calls.h"

namespace dtrain::data {
namespace {

std::shared_ptr<arrow::Array> take(const std::string& where, const std::shared_ptr<arrow::Array>& values,
                                   const arrow::Array& places) {
  return must(where, arrow::compute::Take(*values, places, arrow::compute::TakeOptions::NoBoundsCheck()));
}

std::shared_ptr<arrow::Array> array_of_places(const std::vector<std::uint32_t>& places) {
  return std::make_shared<arrow::UInt32Array>(static_cast<std::int64_t>(places.size()), arrow::Buffer::Wrap(places));
}

}  // namespace

Scattered scatter(const std::string& where, const arrow::RecordBatch& rows, const std::vector<std::uint32_t>& buckets,
                  std::uint32_t count) {
  std::vector<std::uint32_t> ends(count + std::size_t{1});
  for (const std::uint32_t bucket : buckets) ++ends[bucket + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<std::uint32_t> next(ends.begin(), ends.end() - 1), places(buckets.size());
  for (std::uint32_t row = 0; row < buckets.size(); ++row) places[next[buckets[row]]++] = row;
  const auto order = array_of_places(places);
  arrow::ArrayVector columns;
  for (const auto& column : rows.columns()) columns.push_back(take(where, column, *order));
  ends.erase(ends.begin());
  return {arrow::RecordBatch::Make(rows.schema(), rows.num_rows(), std::move(columns)), std::move(ends)};
}

std::shared_ptr<arrow::RecordBatch> copied(const std::string& where, const arrow::RecordBatch& rows) {
  arrow::ArrayVector columns;
  for (const auto& column : rows.columns()) columns.push_back(must(where, arrow::Concatenate({column})));
  return arrow::RecordBatch::Make(rows.schema(), rows.num_rows(), std::move(columns));
}

std::shared_ptr<arrow::RecordBatch> joined(const std::string& where, const Batches& batches) {
  if (batches.size() == 1) return batches.front();
  std::int64_t rows = 0;
  for (const auto& batch : batches) rows += batch->num_rows();
  arrow::ArrayVector columns;
  for (int column = 0; column < batches.front()->num_columns(); ++column) {
    arrow::ArrayVector pieces;
    for (const auto& batch : batches) pieces.push_back(batch->column(column));
    columns.push_back(must(where, arrow::Concatenate(pieces)));
  }
  return arrow::RecordBatch::Make(batches.front()->schema(), rows, std::move(columns));
}

std::shared_ptr<arrow::RecordBatch> ordered(const std::string& where, const arrow::RecordBatch& rows) {
  const int last = rows.num_columns() - 1;
  const auto& keys = static_cast<const arrow::UInt64Array&>(*rows.column(last));
  std::vector<std::pair<std::uint64_t, std::uint32_t>> by_key(static_cast<std::size_t>(rows.num_rows()));
  for (std::uint32_t row = 0; row < by_key.size(); ++row) by_key[row] = {keys.Value(row), row};
  std::sort(by_key.begin(), by_key.end());
  std::vector<std::uint32_t> places(by_key.size());
  for (std::size_t i = 0; i < by_key.size(); ++i) places[i] = by_key[i].second;
  const auto order = array_of_places(places);
  arrow::ArrayVector columns;
  arrow::FieldVector fields;
  for (int column = 0; column < last; ++column) {
    columns.push_back(take(where, rows.column(column), *order));
    fields.push_back(rows.schema()->field(column));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), rows.num_rows(), std::move(columns));
}

}  // namespace dtrain::data
