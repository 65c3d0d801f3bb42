#pragma once
// Arrow's columns as this library has them: their types, and their values side by side.
#include <arrow/chunked_array.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/base/row_layout.h"

namespace dtrain::data {

// Throws DataError, with `where`, if the column has a type that no tensor can have.
Column column_of(const std::string& where, const arrow::Field& field);

// A dictionary's rows, or lists', with their values in place; other columns as they are.
arrow::Result<std::shared_ptr<arrow::ChunkedArray>> without_dictionary(std::shared_ptr<arrow::ChunkedArray> array,
                                                                       arrow::MemoryPool* pool);

// What one row group has of a column.
struct ColumnValues {
  std::shared_ptr<arrow::ChunkedArray> array;  // owns the values, or
  std::vector<std::byte> copied;               // these do
  std::vector<std::int64_t> offsets;           // of a ragged column
  const std::byte* values = nullptr;
  std::vector<std::int32_t> lengths;        // of lists of strings: of each string,
  std::vector<std::int64_t> texts_offsets;  // and where each row's strings begin

  // One, or two of lists of strings, as TensorColumns has them.
  void add_spans(std::vector<ColumnSpan>& to) const {
    to.push_back({values, offsets.empty() ? nullptr : offsets.data()});
    if (!texts_offsets.empty()) {
      to.push_back({reinterpret_cast<const std::byte*>(lengths.data()), texts_offsets.data()});
    }
  }
};

// Throws DataError, with `where`, if there are nulls, or if it is not `rows` rows of `column`.
ColumnValues values_of(const std::string& where, const Column& column, std::int64_t rows,
                       std::shared_ptr<arrow::ChunkedArray> array);

}  // namespace dtrain::data
