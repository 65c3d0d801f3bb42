// Parquet and IPC files as sources: their units are the row groups and the record batches that they have.
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>

#include <algorithm>

#include "data/arrow/arrow_calls.h"
#include "data/source/source.h"

namespace dtrain::data {
namespace {

std::shared_ptr<arrow::Schema> plain_schema(const arrow::Schema& schema) {
  arrow::FieldVector fields;
  for (const auto& field : schema.fields()) fields.push_back(arrow::field(field->name(), plain_type(field->type())));
  return arrow::schema(fields);
}

std::int64_t fixed_bytes(const arrow::Schema& schema) {
  std::int64_t bytes = 0;
  for (const SourceColumn& column : source_columns(schema)) bytes += value_bytes(column.type);
  return bytes;
}

class ParquetSource : public Source {
 public:
  explicit ParquetSource(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) add(file.path);
  }

  Arrays read(std::size_t unit, const std::vector<int>& columns) const override {
    const Unit& one = units_[unit];
    const File& file = files_[one.file];
    const std::string name = fmt::format("{}, row group {}", file.path, one.begin);
    const auto reader = open(file.path, file.footer);
    Arrays arrays;
    for (const int column : columns) {
      const auto& field = *schema_->field(column);
      const std::string where = fmt::format("{}, column '{}'", name, field.name());
      const auto read = must_all(where, [&]() -> arrow::Result<std::shared_ptr<arrow::ChunkedArray>> {
        std::shared_ptr<arrow::ChunkedArray> values;
        const int place = file.fields[static_cast<std::size_t>(column)];
        ARROW_RETURN_NOT_OK(reader->RowGroup(static_cast<int>(one.begin))->Column(place)->Read(&values));
        return values;
      });
      if (read->length() != rows_[unit])
        fail_at(where, fmt::format("it has {} rows, and the footer says {}; write the file again", read->length(),
                                   rows_[unit]));
      arrays.push_back(plain_array(where, read->chunks(), field.type()));
    }
    return arrays;
  }

  std::string where(std::size_t unit, std::int64_t row) const override {
    std::int64_t before = 0;
    for (std::size_t i = unit; i > 0 && units_[i - 1].file == units_[unit].file; --i) before += rows_[i - 1];
    return fmt::format("{}, row {}", files_[units_[unit].file].path, before + row + 1);
  }

 private:
  // Of all footers together, as they lie in the files; in memory they take 30 times as much.
  static constexpr std::uint32_t kFootersKeptMax = 1'000'000;

  struct File {
    std::string path;
    std::shared_ptr<parquet::FileMetaData> footer;  // none: not kept
    std::vector<int> fields;                        // of the schema's columns, in the file's own
  };

  static std::unique_ptr<parquet::arrow::FileReader> open(const std::string& path,
                                                          std::shared_ptr<parquet::FileMetaData> footer) {
    return must_all(path, [&]() -> arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> {
      parquet::ReaderProperties reading;
      reading.set_page_checksum_verification(true);  // of pages that have one
      parquet::ArrowReaderProperties properties(/*use_threads=*/false);
      properties.set_pre_buffer(false);
      parquet::arrow::FileReaderBuilder builder;
      ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
      ARROW_RETURN_NOT_OK(builder.Open(std::move(file), reading, std::move(footer)));
      return builder.properties(properties)->Build();
    });
  }

  void add(const std::string& path) {
    const auto reader = open(path, nullptr);
    const auto footer = reader->parquet_reader()->metadata();
    const auto found = must_all(path, [&]() -> arrow::Result<std::shared_ptr<arrow::Schema>> {
      std::shared_ptr<arrow::Schema> read;
      ARROW_RETURN_NOT_OK(reader->GetSchema(&read));
      return read;
    });
    if (!schema_)
      schema_ = plain_schema(*found);
    else
      check_schema(files_.front().path, *schema_, path, *found);
    File file{path, nullptr, {}};
    if (footers_kept_ + footer->size() <= kFootersKeptMax) {
      footers_kept_ += footer->size();
      file.footer = footer;
    }
    for (const auto& field : schema_->fields()) file.fields.push_back(found->GetFieldIndex(field->name()));
    files_.push_back(std::move(file));
    constexpr std::int64_t kBeside = 12;  // its number and its key, which go with it
    const std::int64_t row_bytes = fixed_bytes(*schema_);
    for (int group = 0; group < footer->num_row_groups(); ++group) {
      const auto facts = footer->RowGroup(group);
      const std::int64_t rows = facts->num_rows();
      if (rows < 0 || rows > UINT32_MAX) fail_at(path, fmt::format("row group {} has {} rows", group, rows));
      if (rows == 0) continue;
      const std::int64_t bytes = std::max(facts->total_byte_size(), rows * row_bytes) + rows * kBeside;
      units_.push_back({files_.size() - 1, group, group + 1, bytes, rows});
      rows_.push_back(rows);
    }
  }

  std::vector<File> files_;
  std::vector<std::int64_t> rows_;  // of each unit
  std::uint32_t footers_kept_ = 0;
};

class IpcSource : public Source {
 public:
  explicit IpcSource(const std::vector<SourceFile>& files) {
    for (const SourceFile& file : files) {
      const auto reader = open(file.path, {});
      if (!schema_)
        schema_ = plain_schema(*reader->schema());
      else
        check_schema(paths_.front(), *schema_, file.path, *reader->schema());
      const int batches = reader->num_record_batches();
      paths_.push_back(file.path);
      for (int batch = 0; batch < batches; ++batch)
        units_.push_back({paths_.size() - 1, batch, batch + 1, std::max<std::int64_t>(file.bytes / batches, 1)});
    }
  }

  Arrays read(std::size_t unit, const std::vector<int>& columns) const override {
    const std::string& path = paths_[units_[unit].file];
    const std::string where = fmt::format("{}, batch {}", path, units_[unit].begin);
    const auto batch = batch_of(unit);
    must(where, batch->Validate());
    Arrays arrays;
    for (const int column : columns) {
      const auto& field = *schema_->field(column);
      arrays.push_back(plain_array(where, {batch->GetColumnByName(field.name())}, field.type()));
    }
    return arrays;
  }

  std::string where(std::size_t unit, std::int64_t row) const override {
    std::int64_t before = 0;
    for (std::size_t i = unit; i > 0 && units_[i - 1].file == units_[unit].file; --i)
      before += batch_of(i - 1)->num_rows();
    return fmt::format("{}, row {}", paths_[units_[unit].file], before + row + 1);
  }

 private:
  static std::shared_ptr<arrow::ipc::RecordBatchFileReader> open(const std::string& path,
                                                                 const arrow::ipc::IpcReadOptions& options) {
    const auto file = must(path, arrow::io::ReadableFile::Open(path));
    return must(path, arrow::ipc::RecordBatchFileReader::Open(file, options));
  }

  std::shared_ptr<arrow::RecordBatch> batch_of(std::size_t unit) const {
    const Unit& one = units_[unit];
    arrow::ipc::IpcReadOptions options;
    options.use_threads = false;
    const std::string& path = paths_[one.file];
    const auto reader = open(path, options);
    return must(fmt::format("{}, batch {}", path, one.begin), reader->ReadRecordBatch(static_cast<int>(one.begin)));
  }

  std::vector<std::string> paths_;
};

}  // namespace

std::unique_ptr<Source> open_parquet(const std::vector<SourceFile>& files) {
  return std::make_unique<ParquetSource>(files);
}

std::unique_ptr<Source> open_ipc(const std::vector<SourceFile>& files) { return std::make_unique<IpcSource>(files); }

}  // namespace dtrain::data
