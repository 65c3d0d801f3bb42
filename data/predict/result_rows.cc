// Tested by test/process/data/predict_program_test.py.
#include "data/predict/result_rows.h"

#include <arrow/array.h>
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>
#include <arrow/table.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <set>

#include "data/arrow/arrow_calls.h"

namespace dtrain::data {
namespace {

std::shared_ptr<arrow::DataType> arrow_type_of(ElementType type) {
  switch (type) {
    case ElementType::boolean:
      return arrow::boolean();
    case ElementType::uint8:
      return arrow::uint8();
    case ElementType::int8:
      return arrow::int8();
    case ElementType::int16:
      return arrow::int16();
    case ElementType::int32:
      return arrow::int32();
    case ElementType::int64:
      return arrow::int64();
    case ElementType::float16:
      return arrow::float16();
    case ElementType::float32:
      return arrow::float32();
    default:
      return arrow::float64();
  }
}

// Looks at the caller's memory; booleans become bits.
std::shared_ptr<arrow::Array> flat_array(const std::string& where, const HostValues& of, std::int64_t count) {
  if (of.type == ElementType::boolean) {
    arrow::BooleanBuilder builder;
    must(where, builder.AppendValues(reinterpret_cast<const std::uint8_t*>(of.values), count));
    return must(where, builder.Finish());
  }
  const auto bytes = count * static_cast<std::int64_t>(element_bytes(of.type));
  auto buffer = std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(of.values), bytes);
  return arrow::MakeArray(arrow::ArrayData::Make(arrow_type_of(of.type), count, {nullptr, std::move(buffer)}, 0));
}

std::shared_ptr<arrow::Array> array_of_values(const std::string& where, const HostValues& of) {
  const std::int64_t rows = of.shape.front();
  if (of.shape.size() == 1) return flat_array(where, of, rows);
  const auto values = flat_array(where, of, rows * of.shape[1]);
  return std::make_shared<arrow::FixedSizeListArray>(
      arrow::fixed_size_list(values->type(), static_cast<std::int32_t>(of.shape[1])), rows, values);
}

std::shared_ptr<arrow::Array> array_of_texts(const std::string& where, const std::vector<std::string>& texts) {
  arrow::StringBuilder builder;
  must(where, builder.AppendValues(texts));
  return must(where, builder.Finish());
}

std::int64_t rows_in(const HostColumn& column) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&column))
    return static_cast<std::int64_t>(texts->size());
  return std::get<HostValues>(column).shape.front();
}

std::string in_words(const arrow::Schema& schema) {
  std::string words;
  for (const auto& field : schema.fields())
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", field->name(), field->type()->ToString());
  return words;
}

}  // namespace

std::shared_ptr<arrow::Table> result_table(const std::string& where, std::int64_t rows, const arrow::Table* copied,
                                           const HostColumns& columns) {
  arrow::FieldVector fields;
  arrow::ChunkedArrayVector values;
  if (copied != nullptr) {
    fields = copied->schema()->fields();
    values = copied->columns();
  }
  for (const auto& [name, column] : columns) {
    if (const std::int64_t got = rows_in(column); got != rows)
      fail_at(where,
              fmt::format("predict() returned {} rows for {} in column '{}'; return one for each", got, rows, name));
    const auto* texts = std::get_if<std::vector<std::string>>(&column);
    const auto array =
        texts != nullptr ? array_of_texts(where, *texts) : array_of_values(where, std::get<HostValues>(column));
    fields.push_back(arrow::field(name, array->type()));
    values.push_back(std::make_shared<arrow::ChunkedArray>(array));
  }
  if (fields.empty()) fail_at(where, "predict() returned no column; return one or more");
  std::set<std::string> seen;
  for (const auto& field : fields)
    if (!seen.insert(field->name()).second)
      fail_at(where, fmt::format("its result has two columns '{}'", field->name()));
  return arrow::Table::Make(arrow::schema(fields), values, rows);
}

std::string schema_bytes(const arrow::Table& table) {
  return must("schema", arrow::ipc::SerializeSchema(*table.schema()->RemoveMetadata()))->ToString();
}

void check_result_schema(const std::string& where, const arrow::Table& table, const std::string& first) {
  arrow::io::BufferReader bytes(arrow::Buffer::FromString(first));
  arrow::ipc::DictionaryMemo dictionaries;
  const auto read = arrow::ipc::ReadSchema(&bytes, &dictionaries);
  if (!read.ok())
    fail_at(where, fmt::format("OUTPUT/.dtrain/schema, of the results before it, is damaged; remove OUTPUT, and start "
                               "again ({})",
                               read.status().message()));
  const auto& schema = *read;
  if (!schema->Equals(*table.schema(), /*check_metadata=*/false))
    fail_at(where, fmt::format("its result has other columns than the results before it: {}, not {}",
                               in_words(*table.schema()), in_words(*schema)));
}

void write_result(const std::string& path, const arrow::Table& table) {
  must_all(path, [&]() -> arrow::Result<bool> {
    ARROW_ASSIGN_OR_RAISE(const auto out, arrow::io::FileOutputStream::Open(path));
    const auto properties = parquet::WriterProperties::Builder().compression(parquet::Compression::SNAPPY)->build();
    const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    ARROW_RETURN_NOT_OK(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out,
                                                   std::max<std::int64_t>(1, table.num_rows()), properties,
                                                   arrow_properties));
    ARROW_RETURN_NOT_OK(out->Close());
    return true;
  });
}

}  // namespace dtrain::data
