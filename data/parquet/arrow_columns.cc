#include "data/parquet/arrow_columns.h"

#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
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
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
      return ElementType::int32;
    case arrow::Type::INT64:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
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

template <typename Value>
void put(std::byte* to, Value value) {
  std::memcpy(to, &value, sizeof value);
}

// `type` has such a value.
void put_number(std::byte* to, ElementType type, double value) {
  switch (type) {
    case ElementType::boolean:
    case ElementType::uint8:
      return put(to, static_cast<std::uint8_t>(value));
    case ElementType::int8:
      return put(to, static_cast<std::int8_t>(value));
    case ElementType::int16:
      return put(to, static_cast<std::int16_t>(value));
    case ElementType::int32:
      return put(to, static_cast<std::int32_t>(value));
    case ElementType::int64:
      return put(to, static_cast<std::int64_t>(value));
    case ElementType::float16:
      return put(to, arrow::util::Float16::FromDouble(value).bits());
    case ElementType::float32:
      return put(to, static_cast<float>(value));
    case ElementType::float64:
      return put(to, value);
  }
}

// Where the values of a primitive array begin; booleans have bits, and become bytes. With `copied` they are added to
// it, and null values are filled if the column says with what.
const std::byte* add_values(const arrow::Array& array, const Column& column, std::vector<std::byte>* copied) {
  const std::size_t size = element_bytes(column.type), begin = copied != nullptr ? copied->size() : 0;
  const std::byte* values = nullptr;
  if (column.type == ElementType::boolean) {
    const auto& bits = static_cast<const arrow::BooleanArray&>(array);
    for (std::int64_t i = 0; i < bits.length(); ++i) copied->push_back(std::byte{bits.Value(i)});
  } else {
    const auto& buffer = array.data()->buffers[1];
    if (buffer) values = reinterpret_cast<const std::byte*>(buffer->data());
    if (values != nullptr) values += static_cast<std::size_t>(array.offset()) * size;
    if (copied != nullptr && values != nullptr) {
      copied->insert(copied->end(), values, values + static_cast<std::size_t>(array.length()) * size);
    }
  }
  for (std::int64_t i = 0; column.fill && array.null_count() != 0 && i < array.length(); ++i) {
    if (array.IsNull(i))
      put_number(copied->data() + begin + static_cast<std::size_t>(i) * size, column.type, *column.fill);
  }
  return values;
}

// The values of the ragged rows of an array: those of these from `from` on and before `to`.
struct RaggedValues {
  std::shared_ptr<arrow::Array> values = nullptr;  // of lists
  const std::uint8_t* bytes = nullptr;             // of strings
  std::int64_t from = 0, to = 0;
};

// Adds to the offsets, which begin with a 0.
template <typename Array>
RaggedValues ragged_values(const Array& array, std::vector<std::int64_t>& offsets) {
  const std::int64_t before = offsets.back(), from = array.value_offset(0);
  for (std::int64_t row = 1; row <= array.length(); ++row) offsets.push_back(before + array.value_offset(row) - from);
  RaggedValues found;
  found.from = from;
  found.to = array.value_offset(array.length());
  if constexpr (requires { array.values(); }) {
    found.values = array.values();
  } else {
    found.bytes = array.value_data() ? array.value_data()->data() : nullptr;
  }
  return found;
}

RaggedValues ragged_values_of(const arrow::Array& array, std::vector<std::int64_t>& offsets) {
  switch (array.type_id()) {
    case arrow::Type::LIST:
      return ragged_values(static_cast<const arrow::ListArray&>(array), offsets);
    case arrow::Type::LARGE_LIST:
      return ragged_values(static_cast<const arrow::LargeListArray&>(array), offsets);
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return ragged_values(static_cast<const arrow::LargeBinaryArray&>(array), offsets);
    default:
      return ragged_values(static_cast<const arrow::BinaryArray&>(array), offsets);
  }
}

std::int64_t first_null(const arrow::Array& array) {
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) return i;
  }
  return array.length();
}

// What is found of a column's nulls, chunk by chunk.
class Nulls {
 public:
  // `rows_before`: of the chunks before. row_of: the chunk's row that has value i.
  template <typename RowOf>
  void add(const arrow::Array& array, std::int64_t rows_before, const RowOf& row_of) {
    const std::int64_t found = array.null_count();
    if (found != 0 && count_ == 0) first_ = rows_before + row_of(first_null(array));
    count_ += found;
  }
  void check(const std::string& where, const Column& column) const {
    if (count_ == 0 || column.fill) return;
    throw DataError(fmt::format(
        "dtrain: {}: column '{}' has {} null values, the first in row {}; fill them, or leave the column out", where,
        column.name, count_, first_));
  }

 private:
  std::int64_t count_ = 0, first_ = 0;
};

const arrow::DataType* value_type_of(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return static_cast<const arrow::BaseListType&>(type).value_type().get();
    default:
      return &type;
  }
}

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::BINARY ||
         type.id() == arrow::Type::LARGE_STRING || type.id() == arrow::Type::LARGE_BINARY;
}

const arrow::DataType& type_in_place(const arrow::DataType& type) {
  return type.id() == arrow::Type::DICTIONARY ? *static_cast<const arrow::DictionaryType&>(type).value_type() : type;
}

// Null: it has none.
std::shared_ptr<arrow::DataType> type_without_dictionary(const std::shared_ptr<arrow::DataType>& type) {
  if (type->id() == arrow::Type::DICTIONARY) return static_cast<const arrow::DictionaryType&>(*type).value_type();
  if (value_type_of(*type)->id() != arrow::Type::DICTIONARY) return nullptr;
  const auto& values = static_cast<const arrow::BaseListType&>(*type).value_type();
  const auto in_place = static_cast<const arrow::DictionaryType&>(*values).value_type();
  if (type->id() == arrow::Type::LIST) return arrow::list(in_place);
  if (type->id() == arrow::Type::LARGE_LIST) return arrow::large_list(in_place);
  return arrow::fixed_size_list(in_place, static_cast<const arrow::FixedSizeListType&>(*type).list_size());
}

}  // namespace

Column column_of(const std::string& where, const arrow::Field& field) {
  const arrow::DataType& type = type_in_place(*field.type());
  if (is_text(type)) return {field.name(), ElementType::uint8, 0, true};
  const arrow::DataType* of_values = value_type_of(type);
  if (is_text(type_in_place(*of_values))) return {field.name(), ElementType::uint8, 0, true, true};
  const bool fixed = type.id() == arrow::Type::FIXED_SIZE_LIST;
  const std::int64_t list_size = fixed ? static_cast<const arrow::FixedSizeListType&>(type).list_size() : 0;
  const auto element = element_type(*of_values);
  if (!element || (fixed && list_size < 1)) {
    throw DataError(
        fmt::format("dtrain: {}: column '{}' is {}; columns can be bool, uint8, int8 to int64, float16 to float64, "
                    "times, strings, binary, and lists of these. Leave it out, or write it as one of these",
                    where, field.name(), type.ToString()));
  }
  const bool is_time = arrow::is_temporal(of_values->id());
  return {.name = field.name(),
          .type = *element,
          .list_size = list_size,
          .ragged = of_values != &type && !fixed,
          .time = is_time ? of_values->ToString() : ""};
}

arrow::Result<std::shared_ptr<arrow::ChunkedArray>> without_dictionary(std::shared_ptr<arrow::ChunkedArray> array,
                                                                       arrow::MemoryPool* pool) {
  const auto to = type_without_dictionary(array->type());
  if (!to) return array;
  arrow::compute::ExecContext context(pool);
  const auto options = arrow::compute::CastOptions::Safe(to);
  ARROW_ASSIGN_OR_RAISE(const arrow::Datum in_place, arrow::compute::Cast(array, options, &context));
  return in_place.chunked_array();
}

namespace {

// The values of null lists of a fixed size, which `copied` ends with.
void fill_lists(const arrow::FixedSizeListArray& lists, const Column& column, std::vector<std::byte>* copied) {
  if (!column.fill || lists.null_count() == 0) return;
  const std::size_t size = element_bytes(column.type), of_list = column.bytes();
  std::byte* begin = copied->data() + copied->size() - of_list * static_cast<std::size_t>(lists.length());
  for (std::int64_t row = 0; row < lists.length(); ++row) {
    std::byte* list = begin + of_list * static_cast<std::size_t>(row);
    for (std::size_t at = 0; lists.IsNull(row) && at < of_list; at += size)
      put_number(list + at, column.type, *column.fill);
  }
}

// Which row of a chunk has value `value` of the chunk's, by the offsets from the chunk's first row on.
std::int64_t row_with(std::int64_t value, const std::vector<std::int64_t>& offsets, std::ptrdiff_t begin) {
  const auto first = offsets.begin() + begin;
  return std::upper_bound(first, offsets.end(), *first + value) - first - 1;
}

// `before`: rows of the chunks before.
void add_ragged(const arrow::Array& chunk, const Column& column, std::int64_t before, std::vector<std::byte>* copied,
                ColumnValues& result, Nulls& nulls) {
  const auto begin = static_cast<std::ptrdiff_t>(result.offsets.size() - 1);
  const RaggedValues found = ragged_values_of(chunk, result.offsets);
  if (!found.values) {
    result.values = reinterpret_cast<const std::byte*>(found.bytes) + found.from;
    if (copied != nullptr) copied->insert(copied->end(), result.values, result.values + (found.to - found.from));
    return;
  }
  const auto values = found.values->Slice(found.from, found.to - found.from);
  nulls.add(*values, before, [&](std::int64_t value) { return row_with(value, result.offsets, begin); });
  result.values = add_values(*values, column, copied);
}

// The strings of a chunk of lists, after each other. Adds to the offsets, which begin with a 0.
std::shared_ptr<arrow::Array> texts_of(const arrow::Array& chunk, std::vector<std::int64_t>& offsets) {
  if (chunk.type_id() != arrow::Type::FIXED_SIZE_LIST) {
    const RaggedValues found = ragged_values_of(chunk, offsets);
    return found.values->Slice(found.from, found.to - found.from);
  }
  const auto& lists = static_cast<const arrow::FixedSizeListArray&>(chunk);
  const std::int64_t size = lists.list_type()->list_size();
  for (std::int64_t row = 0; row < lists.length(); ++row) offsets.push_back(offsets.back() + size);
  return lists.values()->Slice(lists.value_offset(0), lists.length() * size);
}

// Returns the strings' bytes.
template <typename Texts>
const std::byte* add_lengths_of(const Texts& texts, std::vector<std::int32_t>& lengths) {
  for (std::int64_t i = 0; i < texts.length(); ++i) lengths.push_back(static_cast<std::int32_t>(texts.value_length(i)));
  return texts.length() == 0 ? nullptr : reinterpret_cast<const std::byte*>(texts.raw_data()) + texts.value_offset(0);
}

void add_texts(const arrow::Array& chunk, std::int64_t before, std::vector<std::byte>* copied, ColumnValues& result,
               Nulls& nulls) {
  const std::size_t begin = result.texts_offsets.size() - 1;
  const auto texts = texts_of(chunk, result.texts_offsets);
  nulls.add(*texts, before, [&](std::int64_t text) {
    return row_with(text, result.texts_offsets, static_cast<std::ptrdiff_t>(begin));
  });
  const bool large = texts->type_id() == arrow::Type::LARGE_STRING || texts->type_id() == arrow::Type::LARGE_BINARY;
  auto length = static_cast<std::ptrdiff_t>(result.lengths.size());
  result.lengths.reserve(result.lengths.size() + static_cast<std::size_t>(texts->length()));
  result.values = large ? add_lengths_of(static_cast<const arrow::LargeBinaryArray&>(*texts), result.lengths)
                        : add_lengths_of(static_cast<const arrow::BinaryArray&>(*texts), result.lengths);
  const std::int64_t bytes_before = result.offsets.back();
  for (std::size_t row = begin + 1; row < result.texts_offsets.size(); ++row) {
    std::int64_t end = result.offsets.back();
    for (; length < result.texts_offsets[row]; ++length) end += result.lengths[static_cast<std::size_t>(length)];
    result.offsets.push_back(end);
  }
  if (copied != nullptr) {
    copied->insert(copied->end(), result.values, result.values + (result.offsets.back() - bytes_before));
  }
}

}  // namespace

ColumnValues values_of(const std::string& where, const Column& column, std::int64_t rows,
                       std::shared_ptr<arrow::ChunkedArray> array) {
  if (array->length() != rows) {
    throw DataError(fmt::format("dtrain: {}: column '{}' has {} rows, and the footer says {}; write the file again",
                                where, column.name, array->length(), rows));
  }
  ColumnValues result{std::move(array), {}, {}, nullptr, {}, {}};
  const bool copies = result.array->num_chunks() != 1 || column.type == ElementType::boolean || column.fill;
  if (copies) result.copied.reserve(column.bytes() * static_cast<std::size_t>(rows));
  if (column.ragged) {
    result.offsets.reserve(static_cast<std::size_t>(rows) + 1);
    result.offsets.push_back(0);
  }
  if (column.texts) {
    result.texts_offsets.reserve(static_cast<std::size_t>(rows) + 1);
    result.texts_offsets.push_back(0);
  }
  std::vector<std::byte>* copied = copies ? &result.copied : nullptr;
  Nulls nulls;
  std::int64_t before = 0;
  for (const auto& chunk : result.array->chunks()) {
    nulls.add(*chunk, before, std::identity());
    if (column.texts) {
      add_texts(*chunk, before, copied, result, nulls);
    } else if (column.ragged) {
      add_ragged(*chunk, column, before, copied, result, nulls);
    } else if (column.list_size != 0) {
      const auto& list = static_cast<const arrow::FixedSizeListArray&>(*chunk);
      const auto values = list.values()->Slice(list.value_offset(0), chunk->length() * column.list_size);
      nulls.add(*values, before, [&](std::int64_t value) { return value / column.list_size; });
      result.values = add_values(*values, column, copied);
      fill_lists(list, column, copied);
    } else {
      result.values = add_values(*chunk, column, copied);
    }
    before += chunk->length();
  }
  nulls.check(where, column);
  if (copies) result.values = result.copied.data();
  return result;
}

}  // namespace dtrain::data
