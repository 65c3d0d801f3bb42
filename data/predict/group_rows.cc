// Tested by test/process/data/predict_program_test.py.
#include "data/predict/group_rows.h"

#include <arrow/io/file.h>
#include <arrow/table.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>

#include <atomic>
#include <cstring>

#include "data/arrow/arrow_calls.h"
#include "data/base/store_uri.h"
#include "data/files/open_file.h"
#include "data/loader/loader_plan.h"
#include "data/parquet/parquet_set.h"

namespace dtrain::data {
namespace {

constexpr const char* kPredictor = "Predictor";

arrow::Result<OpenedFile> opened(const std::string& path) {
  if (!is_store_uri(path)) return arrow::io::ReadableFile::Open(path);
  DataFile file = find_files({path}, {}).front();
  return open_first(file);
}

std::unique_ptr<parquet::arrow::FileReader> reader_of(const std::string& path) {
  return must_all(path, [&]() -> arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> {
    ARROW_ASSIGN_OR_RAISE(auto file, opened(path));
    parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(std::move(file)));
    return builder.properties(parquet::ArrowReaderProperties(/*use_threads=*/false))->Build();
  });
}

HostTensor copy_of(ElementType type, std::vector<std::int64_t> shape, const std::byte* values, std::size_t count) {
  const std::size_t bytes = count * element_bytes(type);
  HostTensor tensor{type, std::move(shape), new_block(bytes)};
  if (bytes != 0) std::memcpy(tensor.values.get(), values, bytes);
  return tensor;
}

HostTensor matrix_of(const TensorColumns& of, const ColumnSpan* columns, std::int64_t rows) {
  const ElementType type = of.columns.front().type;
  const std::size_t size = element_bytes(type), width = of.columns.size(), count = static_cast<std::size_t>(rows);
  HostTensor tensor{type, {rows, static_cast<std::int64_t>(width)}, new_block(size * width * count)};
  for (std::size_t column = 0; column < width; ++column)
    for (std::size_t row = 0; row < count; ++row)
      std::memcpy(tensor.values.get() + (row * width + column) * size, columns[column].values + row * size, size);
  return tensor;
}

HostTensor copy_of_offsets(const std::int64_t* offsets, std::int64_t rows) {
  return copy_of(ElementType::int64, {rows + 1}, reinterpret_cast<const std::byte*>(offsets),
                 static_cast<std::size_t>(rows) + 1);
}

HostTensor offsets_of_texts(const ColumnSpan& lengths, std::int64_t rows) {
  const std::int64_t texts = lengths.offsets[rows];
  HostTensor tensor = int64_tensor(texts + 1, new_block);
  int64_values(tensor)[0] = 0;
  add_lengths({lengths.values, static_cast<std::size_t>(texts) * sizeof(std::int32_t)}, int64_values(tensor));
  return tensor;
}

HostBatch batch_of_group(const std::vector<TensorColumns>& tensors, const DecodedGroup& group) {
  HostBatch batch;
  batch.rows = batch.global_rows = group.rows;
  const auto rows = static_cast<std::size_t>(group.rows);
  const ColumnSpan* span = group.columns.data();
  for (const TensorColumns& of : tensors) {
    const Column& first = of.columns.front();
    if (of.matrix) {
      batch.tensors.push_back(matrix_of(of, span, group.rows));
    } else if (of.ragged()) {
      const auto count = static_cast<std::size_t>(span->offsets[rows]);
      batch.tensors.push_back(copy_of(first.type, {span->offsets[rows]}, span->values, count));
      if (of.texts()) batch.tensors.push_back(offsets_of_texts(span[1], group.rows));
      batch.tensors.push_back(copy_of_offsets(of.texts() ? span[1].offsets : span->offsets, group.rows));
    } else {
      std::vector<std::int64_t> shape{group.rows};
      if (first.list_size != 0) shape.push_back(first.list_size);
      batch.tensors.push_back(
          copy_of(first.type, shape, span->values, rows * first.bytes() / element_bytes(first.type)));
    }
    span += of.columns.size();
  }
  return batch;
}

std::shared_ptr<arrow::Table> columns_of(const std::string& path, int group, const std::vector<std::string>& names) {
  const auto reader = reader_of(path);
  arrow::FieldVector fields;
  arrow::ChunkedArrayVector columns;
  std::shared_ptr<arrow::Schema> schema;
  must(path, reader->GetSchema(&schema));
  for (const std::string& name : names) {
    const int place = schema->GetFieldIndex(name);
    if (place < 0) fail_at(path, fmt::format("it has no column '{}', or has it twice", name));
    const auto& field = schema->field(place);
    fields.push_back(arrow::field(name, field->type(), field->nullable()));
    columns.push_back(must_all(path, [&]() -> arrow::Result<std::shared_ptr<arrow::ChunkedArray>> {
      std::shared_ptr<arrow::ChunkedArray> read;
      ARROW_RETURN_NOT_OK(reader->RowGroup(group)->Column(place)->Read(&read));
      return read;
    }));
  }
  return arrow::Table::Make(arrow::schema(fields), columns);
}

}  // namespace

std::vector<std::int64_t> row_groups_of(const std::string& path) {
  const auto footer = reader_of(path)->parquet_reader()->metadata();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(footer->num_row_groups()));
  for (std::size_t group = 0; group < rows.size(); ++group)
    rows[group] = footer->RowGroup(static_cast<int>(group))->num_rows();
  return rows;
}

GroupReader::GroupReader(const std::vector<PredictFile>& files, PredictColumns wanted)
    : files_(files), wanted_(std::move(wanted)) {}

GroupReader::~GroupReader() = default;

// The first file says which columns there are, and of which types.
void GroupReader::open(std::size_t file) {
  if (set_ && opened_ == file) return;
  std::vector<std::string> paths{files_.front().path};
  if (file != 0) paths.push_back(files_[file].path);
  set_ =
      std::make_unique<ParquetSet>(paths, wanted_columns(kPredictor, wanted_.columns, wanted_.matrices), wanted_.fill);
  check_fill(kPredictor, set_->columns(), wanted_.fill);
  opened_ = file;
}

GroupRows GroupReader::read(const Part& part) {
  const std::string& path = files_[part.file].path;
  open(part.file);
  const std::size_t before = part.file == 0 ? 0 : files_.front().row_groups.size();
  const std::size_t group = before + static_cast<std::size_t>(part.group);
  const auto& rows = set_->group_rows();
  if (group >= rows.size() || rows[group] != part.rows)
    fail_at(path, "it is no longer what it was when this work began; choose another folder for the results");
  const auto tensors = tensors_of(kPredictor, set_->columns(), wanted_.matrices);
  const std::atomic<bool> never{false};
  const auto decoded = set_->read(group, never);
  GroupRows found{tensor_names(tensors), batch_of_group(tensors, *decoded), nullptr};
  if (!wanted_.copied.empty()) found.copied = columns_of(path, part.group, wanted_.copied);
  return found;
}

}  // namespace dtrain::data
