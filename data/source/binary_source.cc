// Parquet and IPC files as sources: their units are the row groups and the record batches that they have.
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/files/group_bytes.h"
#include "data/files/open_file.h"
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
  explicit ParquetSource(std::vector<DataFile> files) {
    for (DataFile& file : files) add(std::move(file));
  }

  Arrays read_unit(std::size_t unit, const std::vector<int>& columns) const override {
    const Unit& one = units_[unit];
    const File& file = files_[one.file];
    const std::string name = fmt::format("{}, row group {}", file.data.path, one.begin);
    const auto reader = open(file.data.path, open_file(file.data), file.footer);
    fetch(name, file, *reader, static_cast<int>(one.begin), columns);
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

  const DataFile& file_of(std::size_t unit) const override { return files_[units_[unit].file].data; }

  std::string where(std::size_t unit, std::int64_t row) const override {
    std::int64_t before = 0;
    for (std::size_t i = unit; i > 0 && units_[i - 1].file == units_[unit].file; --i) before += rows_[i - 1];
    return fmt::format("{}, row {}", files_[units_[unit].file].data.path, before + row + 1);
  }

 private:
  // Of all footers together, as they lie in the files; in memory they take 30 times as much.
  static constexpr std::uint32_t kFootersKeptMax = 1'000'000;

  struct File {
    DataFile data;
    std::shared_ptr<parquet::FileMetaData> footer;  // none: not kept
    std::vector<int> fields;                        // of the schema's columns, in the file's own
  };

  static std::unique_ptr<parquet::arrow::FileReader> open(const std::string& path, arrow::Result<OpenedFile> opened,
                                                          std::shared_ptr<parquet::FileMetaData> footer) {
    return must_all(path, [&]() -> arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> {
      parquet::ReaderProperties reading;
      reading.set_page_checksum_verification(true);  // of pages that have one
      parquet::ArrowReaderProperties properties(/*use_threads=*/false);
      properties.set_pre_buffer(false);
      parquet::arrow::FileReaderBuilder builder;
      ARROW_ASSIGN_OR_RAISE(auto file, std::move(opened));
      ARROW_RETURN_NOT_OK(builder.Open(std::move(file), reading, std::move(footer)));
      return builder.properties(properties)->Build();
    });
  }

  static void fetch(const std::string& where, const File& file, parquet::arrow::FileReader& reader, int group,
                    const std::vector<int>& columns) {
    std::vector<int> leaves;
    for (const int column : columns) {
      const int place = file.fields[static_cast<std::size_t>(column)];
      add_leaves(reader.manifest().schema_fields[static_cast<std::size_t>(place)], leaves);
    }
    const std::atomic<bool> never = false;
    fetch_group(where, file.data, *reader.parquet_reader(), group, leaves, never);
  }

  void add(DataFile data) {
    const auto reader = open(data.path, open_first(data), nullptr);
    const std::string path = data.path;
    const auto footer = reader->parquet_reader()->metadata();
    const auto found = must_all(path, [&]() -> arrow::Result<std::shared_ptr<arrow::Schema>> {
      std::shared_ptr<arrow::Schema> read;
      ARROW_RETURN_NOT_OK(reader->GetSchema(&read));
      return read;
    });
    if (!schema_)
      schema_ = plain_schema(*found);
    else
      check_schema(files_.front().data.path, *schema_, path, *found);
    File file{std::move(data), nullptr, {}};
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
  explicit IpcSource(std::vector<DataFile> files) {
    for (DataFile& file : files) {
      const auto reader = open(file.path, open_first(file), {});
      if (!schema_)
        schema_ = plain_schema(*reader->schema());
      else
        check_schema(files_.front().path, *schema_, file.path, *reader->schema());
      const int batches = reader->num_record_batches();
      const auto bytes = static_cast<std::int64_t>(file.bytes);
      files_.push_back(std::move(file));
      for (int batch = 0; batch < batches; ++batch)
        units_.push_back({files_.size() - 1, batch, batch + 1, std::max<std::int64_t>(bytes / batches, 1)});
    }
  }

  Arrays read_unit(std::size_t unit, const std::vector<int>& columns) const override {
    const std::string& path = files_[units_[unit].file].path;
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

  const DataFile& file_of(std::size_t unit) const override { return files_[units_[unit].file]; }

  std::string where(std::size_t unit, std::int64_t row) const override {
    std::int64_t before = 0;
    for (std::size_t i = unit; i > 0 && units_[i - 1].file == units_[unit].file; --i)
      before += batch_of(i - 1)->num_rows();
    return fmt::format("{}, row {}", files_[units_[unit].file].path, before + row + 1);
  }

 private:
  static std::shared_ptr<arrow::ipc::RecordBatchFileReader> open(const std::string& path,
                                                                 arrow::Result<OpenedFile> opened,
                                                                 const arrow::ipc::IpcReadOptions& options) {
    const auto file = must(path, std::move(opened));
    return must(path, arrow::ipc::RecordBatchFileReader::Open(file, options));
  }

  std::shared_ptr<arrow::RecordBatch> batch_of(std::size_t unit) const {
    const Unit& one = units_[unit];
    arrow::ipc::IpcReadOptions options;
    options.use_threads = false;
    const DataFile& file = files_[one.file];
    const std::string& path = file.path;
    const auto reader = open(path, open_file(file), options);
    return must(fmt::format("{}, batch {}", path, one.begin), reader->ReadRecordBatch(static_cast<int>(one.begin)));
  }

  std::vector<DataFile> files_;
};

}  // namespace

std::unique_ptr<Source> open_parquet(std::vector<DataFile> files) {
  return std::make_unique<ParquetSource>(std::move(files));
}

std::unique_ptr<Source> open_ipc(std::vector<DataFile> files) { return std::make_unique<IpcSource>(std::move(files)); }

}  // namespace dtrain::data
