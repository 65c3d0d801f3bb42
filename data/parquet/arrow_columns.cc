#include "data/parquet/arrow_columns.h"

#include <arrow/array.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

std::optional<ElementType> element_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return ElementType::boolean;
    case arrow::Type::UINT8:
      return ElementType::uint8;
    case arrow::Type::INT8:
      return ElementType::int8;
    case arrow::Type::INT16:
      return ElementType::int16;
    case arrow::Type::INT32:
      return ElementType::int32;
    case arrow::Type::INT64:
      return ElementType::int64;
    case arrow::Type::HALF_FLOAT:
      return ElementType::float16;
    case arrow::Type::FLOAT:
      return ElementType::float32;
    case arrow::Type::DOUBLE:
      return ElementType::float64;
    default:
      return std::nullopt;
  }
}

// Where the values of a primitive array begin; booleans have bits, and become bytes.
const std::byte* add_values(const arrow::Array& array, const Column& column, std::vector<std::byte>* copied) {
  const std::size_t size = element_bytes(column.type);
  if (column.type == ElementType::boolean) {
    const auto& bits = static_cast<const arrow::BooleanArray&>(array);
    for (std::int64_t i = 0; i < bits.length(); ++i) copied->push_back(std::byte{bits.Value(i)});
    return nullptr;
  }
  const auto& buffer = array.data()->buffers[1];
  const std::byte* values = buffer ? reinterpret_cast<const std::byte*>(buffer->data()) : nullptr;
  if (values != nullptr) values += static_cast<std::size_t>(array.offset()) * size;
  if (copied != nullptr && values != nullptr) {
    copied->insert(copied->end(), values, values + static_cast<std::size_t>(array.length()) * size);
  }
  return values;
}

}  // namespace

Column column_of(const std::string& where, const arrow::Field& field) {
  const arrow::DataType* type = field.type().get();
  std::int64_t list_size = 0;
  if (type->id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& list = static_cast<const arrow::FixedSizeListType&>(*type);
    list_size = list.list_size();
    type = list.value_type().get();
  }
  const auto element = element_type(*type);
  if (!element || (field.type()->id() == arrow::Type::FIXED_SIZE_LIST && list_size < 1)) {
    throw DataError(
        fmt::format("dtrain: {}: column '{}' is {}; columns can be bool, uint8, int8 to int64, float16 to "
                    "float64, and fixed-size lists of these. Leave it out, or write it as one of these",
                    where, field.name(), field.type()->ToString()));
  }
  return {field.name(), *element, list_size};
}

ColumnValues values_of(const std::string& where, const Column& column, std::int64_t rows,
                       std::shared_ptr<arrow::ChunkedArray> array) {
  if (array->length() != rows) {
    throw DataError(fmt::format("dtrain: {}: column '{}' has {} rows, and the footer says {}; write the file again",
                                where, column.name, array->length(), rows));
  }
  ColumnValues result{std::move(array), {}, nullptr};
  const bool copies = result.array->num_chunks() != 1 || column.type == ElementType::boolean;
  if (copies) result.copied.reserve(column.bytes() * static_cast<std::size_t>(rows));
  for (const auto& chunk : result.array->chunks()) {
    std::shared_ptr<arrow::Array> values = chunk;
    std::int64_t nulls = chunk->null_count();
    if (column.list_size != 0) {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(*chunk);
      values = list.values()->Slice(list.value_offset(0), chunk->length() * column.list_size);
      nulls += values->null_count();
    }
    if (nulls != 0) {
      throw DataError(fmt::format("dtrain: {}: column '{}' has {} null values; fill them, or leave the column out",
                                  where, column.name, nulls));
    }
    result.values = add_values(*values, column, copies ? &result.copied : nullptr);
  }
  if (copies) result.values = result.copied.data();
  return result;
}

}  // namespace dtrain::data
