#include "data/process/part_files.h"

#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/type_traits.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/recipe/scatter_plan.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

// Floats of training data hardly repeat or compress, and are read in each epoch. Small integers take four bytes without
// a dictionary. Texts repeat.
std::shared_ptr<parquet::WriterProperties> properties_of(const arrow::Schema& schema, std::int64_t group_rows) {
  parquet::WriterProperties::Builder properties;
  // Buffers of the encoder grow step by step. Arrow's own pool would keep what they were before: 20 MB for each thread.
  properties.memory_pool(arrow::system_memory_pool());
  properties.disable_statistics()->compression(parquet::Compression::UNCOMPRESSED)->max_row_group_length(group_rows);
  for (const auto& field : schema.fields()) {
    const bool list = field->type()->id() == arrow::Type::FIXED_SIZE_LIST;
    const auto type = list ? static_cast<const arrow::FixedSizeListType&>(*field->type()).value_type() : field->type();
    // one_hot: its values take four bytes each until their page is full, and a bit after it.
    if (list && type->id() == arrow::Type::UINT8) properties.data_pagesize(std::int64_t{8} << 10);
    if (arrow::is_floating(type->id()))
      properties.disable_dictionary(list ? field->name() + ".list.element" : field->name());
    if (arrow::is_base_binary_like(type->id())) properties.compression(field->name(), parquet::Compression::ZSTD);
  }
  return properties.build();
}

// A list of one_hot has a value of each place, and each is 13 bytes while it is encoded: the value, the same in four
// bytes, its number in the dictionary, and two levels. A slice has all of them at once.
std::int64_t rows_of_slice(const arrow::Schema& schema) {
  constexpr std::int64_t kValues = 1 << 15;
  std::int64_t widest = 1;
  for (const auto& field : schema.fields())
    if (field->type()->id() == arrow::Type::FIXED_SIZE_LIST)
      widest = std::max<std::int64_t>(widest, static_cast<const arrow::FixedSizeListType&>(*field->type()).list_size());
  return std::max<std::int64_t>(1, kValues / widest);
}

}  // namespace

PartFile::PartFile(fs::path path, std::shared_ptr<arrow::Schema> schema, std::int64_t group_rows)
    : path_(std::move(path)),
      schema_(std::move(schema)),
      group_rows_(group_rows),
      rows_at_once_(rows_of_slice(*schema_)) {}

PartFile::~PartFile() = default;

void PartFile::open() {
  writer_ = must_all(path_.string(), [&]() -> arrow::Result<std::unique_ptr<parquet::arrow::FileWriter>> {
    ARROW_ASSIGN_OR_RAISE(out_, arrow::io::FileOutputStream::Open(path_.string()));
    // The schema is stored, too: Parquet itself does not know the length of lists.
    const auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    return parquet::arrow::FileWriter::Open(*schema_, arrow::system_memory_pool(), out_,
                                            properties_of(*schema_, group_rows_), arrow_properties);
  });
}

void PartFile::add(const arrow::RecordBatch& rows) {
  if (rows.num_rows() == 0) return;
  rows_ += rows.num_rows();
  if (!writer_) open();
  for (std::int64_t row = 0; row < rows.num_rows(); row += rows_at_once_)
    must(path_.string(), writer_->WriteRecordBatch(*rows.Slice(row, rows_at_once_)));
}

void PartFile::close(bool empty) {
  if (!writer_ && empty) open();
  if (!writer_) return;
  must_all(path_.string(), [&]() -> arrow::Result<bool> {
    ARROW_RETURN_NOT_OK(writer_->Close());
    ARROW_RETURN_NOT_OK(out_->Close());  // some file systems say only now that there is no room
    return true;
  });
}

PartFiles::PartFiles(fs::path folder, std::vector<std::string> parts, std::shared_ptr<arrow::Schema> schema,
                     std::int64_t group_rows, std::size_t files_max)
    : folder_(std::move(folder)),
      parts_(std::move(parts)),
      schema_(std::move(schema)),
      group_rows_(group_rows),
      files_max_(files_max),
      numbers_(parts_.size()),
      rows_(parts_.size()) {
  for (const std::string& part : parts_) {
    std::error_code error;
    fs::create_directory(folder_ / part, error);
    if (error) fail_at((folder_ / part).string(), error.message());
  }
}

fs::path PartFiles::path(std::size_t part, std::size_t number) const {
  return folder_ / parts_[part] / part_name(number, files_max_);
}

std::unique_ptr<PartFile> PartFiles::file(std::size_t part, std::size_t number) const {
  return draft(path(part, number));
}

std::unique_ptr<PartFile> PartFiles::draft(fs::path path) const {
  return std::make_unique<PartFile>(std::move(path), schema_, group_rows_);
}

void PartFiles::closed(std::size_t part, std::size_t number, std::int64_t rows) {
  if (rows == 0) return;
  const std::lock_guard lock(mutex_);
  numbers_[part].push_back(number);
  rows_[part] += rows;
}

std::vector<PartFiles::Part> PartFiles::finish() {
  std::vector<Part> all;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (numbers_[part].empty()) {
      file(part, 0)->close(/*empty=*/true);
      numbers_[part].push_back(0);
    }
    std::sort(numbers_[part].begin(), numbers_[part].end());
    Part facts{parts_[part], rows_[part], 0, numbers_[part].size()};
    for (std::size_t i = 0; i < facts.files; ++i) {
      std::error_code error;
      if (numbers_[part][i] != i) fs::rename(path(part, numbers_[part][i]), path(part, i), error);
      if (!error) facts.bytes += static_cast<std::int64_t>(fs::file_size(path(part, i), error));
      if (error) fail_at(path(part, i).string(), error.message());
    }
    all.push_back(facts);
  }
  return all;
}

}  // namespace dtrain::data
