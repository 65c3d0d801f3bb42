#include "data/source/source.h"

#include <arrow/array/concatenate.h>
#include <arrow/array/util.h>
#include <arrow/compute/cast.h>
#include <fmt/format.h>

#include "data/arrow/arrow_calls.h"

namespace dtrain::data {
namespace {

ColumnType column_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return ColumnType::boolean;
    case arrow::Type::INT8:
      return ColumnType::int8;
    case arrow::Type::INT16:
      return ColumnType::int16;
    case arrow::Type::INT32:
      return ColumnType::int32;
    case arrow::Type::INT64:
      return ColumnType::int64;
    case arrow::Type::UINT8:
      return ColumnType::uint8;
    case arrow::Type::UINT16:
      return ColumnType::uint16;
    case arrow::Type::UINT32:
      return ColumnType::uint32;
    case arrow::Type::UINT64:
      return ColumnType::uint64;
    case arrow::Type::HALF_FLOAT:
      return ColumnType::float16;
    case arrow::Type::FLOAT:
      return ColumnType::float32;
    case arrow::Type::DOUBLE:
      return ColumnType::float64;
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
      return ColumnType::text;
    default:
      return ColumnType::other;
  }
}

}  // namespace

std::int64_t Source::bytes() const {
  std::int64_t sum = 0;
  for (const Unit& unit : units_) sum += unit.bytes;
  return sum;
}

Arrays Source::read(std::size_t unit, const std::vector<int>& columns) const {
  try {
    return read_unit(unit, columns);
  } catch (const DataError& error) {
    check_same_after(file_of(unit), error.what());
    throw;
  }
}

std::vector<SourceColumn> source_columns(const arrow::Schema& schema) {
  std::vector<SourceColumn> columns;
  for (const auto& field : schema.fields())
    columns.push_back({field->name(), column_type(*field->type()), field->type()->ToString()});
  return columns;
}

std::shared_ptr<arrow::DataType> arrow_type(ColumnType type) {
  switch (type) {
    case ColumnType::boolean:
      return arrow::boolean();
    case ColumnType::int8:
      return arrow::int8();
    case ColumnType::int16:
      return arrow::int16();
    case ColumnType::int32:
      return arrow::int32();
    case ColumnType::int64:
      return arrow::int64();
    case ColumnType::uint8:
      return arrow::uint8();
    case ColumnType::uint16:
      return arrow::uint16();
    case ColumnType::uint32:
      return arrow::uint32();
    case ColumnType::uint64:
      return arrow::uint64();
    case ColumnType::float16:
      return arrow::float16();
    case ColumnType::float32:
      return arrow::float32();
    case ColumnType::float64:
      return arrow::float64();
    case ColumnType::text:
      return arrow::utf8();
    case ColumnType::other:
      break;
  }
  return nullptr;
}

std::shared_ptr<arrow::DataType> plain_type(const std::shared_ptr<arrow::DataType>& type) {
  if (type->id() == arrow::Type::DICTIONARY) return static_cast<const arrow::DictionaryType&>(*type).value_type();
  if (type->id() == arrow::Type::STRING_VIEW) return arrow::large_utf8();
  return type;
}

std::shared_ptr<arrow::Array> plain_array(const std::string& where, const arrow::ArrayVector& chunks,
                                          const std::shared_ptr<arrow::DataType>& type) {
  arrow::ArrayVector plain;
  for (const auto& chunk : chunks)
    plain.push_back(chunk->type()->Equals(*type) ? chunk : must(where, arrow::compute::Cast(*chunk, type)));
  if (plain.empty()) return must(where, arrow::MakeEmptyArray(type));
  return plain.size() == 1 ? plain.front() : must(where, arrow::Concatenate(plain));
}

void check_schema(const std::string& first, const arrow::Schema& wanted, const std::string& file,
                  const arrow::Schema& found) {
  for (const auto& field : wanted.fields()) {
    const auto other = found.GetFieldByName(field->name());
    if (!other)
      throw DataError(
          fmt::format("dtrain: {}: it has no column '{}', or has it twice, and {} has it", file, field->name(), first));
    const auto type = plain_type(other->type());
    if (!type->Equals(*field->type()))
      throw DataError(fmt::format("dtrain: {}: column '{}' is {}, and in {} it is {}; write one of them again", file,
                                  field->name(), type->ToString(), first, field->type()->ToString()));
  }
  for (const auto& field : found.fields())
    if (!wanted.GetFieldByName(field->name()))
      throw DataError(
          fmt::format("dtrain: {}: it has a column '{}', which {} does not have once", file, field->name(), first));
}

std::unique_ptr<Source> open_source(const Recipe& recipe, const std::vector<std::string>& columns) {
  SourceFiles input = input_files(recipe.input, recipe.format);
  const std::string first = input.files.front().path;
  std::unique_ptr<Source> source;
  if (input.format == InputFormat::parquet)
    source = open_parquet(std::move(input.files));
  else if (input.format == InputFormat::ipc)
    source = open_ipc(std::move(input.files));
  else
    source = open_text(std::move(input.files), input.format, types_to_read(recipe), columns);
  if (source->schema().num_fields() == 0)
    throw DataError(fmt::format("dtrain: {}: its rows have no columns; write the file again", first));
  for (const auto& field : source->schema().fields())
    if (!source->schema().GetFieldByName(field->name()))
      throw DataError(fmt::format("dtrain: {}: two columns are called '{}'", first, field->name()));
  if (source->units().empty()) throw DataError(fmt::format("dtrain: {}: no file of the input has a row", first));
  return source;
}

}  // namespace dtrain::data
