#include "data/parquet/parquet_set.h"

#include <fmt/format.h>
#include <malloc.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/size_statistics.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/base/random_bits.h"
#include "data/files/data_files.h"
#include "data/files/group_bytes.h"
#include "data/files/open_file.h"
#include "data/parquet/arrow_columns.h"
#include "data/parquet/group_pool.h"
#include "data/parquet/parquet_files.h"
#include "data/parquet/seconds_since.h"
#include "data/parquet/timed_file.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

// Of all footers together, as they lie in the files; in memory they take 30 times as much. What is above is read
// again with each row group.
constexpr std::uint64_t footers_kept_max = 500'000;

struct ArrowGroup : DecodedGroup {
  std::vector<ColumnValues> owned;
};

// `seconds` is added to when bytes are read. An object's are there before: fetch_group().
std::unique_ptr<parquet::arrow::FileReader> open_reader(arrow::MemoryPool* pool, const DataFile& from,
                                                        arrow::Result<OpenedFile> opened,
                                                        std::shared_ptr<parquet::FileMetaData> footer,
                                                        double* seconds) {
  return must_all(from.path, [&]() -> arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> {
    parquet::ReaderProperties reading(pool);
    reading.set_page_checksum_verification(true);  // of pages that have one
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    properties.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    ARROW_ASSIGN_OR_RAISE(auto file, std::move(opened));
    if (!from.is_remote()) file = std::make_shared<TimedFile>(std::move(file), seconds);
    ARROW_RETURN_NOT_OK(builder.Open(std::move(file), reading, std::move(footer)));
    return builder.memory_pool(pool)->properties(properties)->Build();
  });
}

std::uint64_t mixed_with(std::uint64_t digest, const std::string& text) {
  for (const char letter : text) digest = mixed(digest + static_cast<unsigned char>(letter) + 1);
  return digest;
}

std::string type_text(const Column& column) {
  if (column.texts) return "lists of strings";
  const std::string name = column.element_name();
  if (column.ragged) return fmt::format("rows of any number of {}", name);
  return column.list_size == 0 ? name : fmt::format("a list of {} {}", column.list_size, name);
}

// Which column of the pages has the values of a field that is no struct.
int leaf_of(const parquet::arrow::SchemaField& field) {
  const parquet::arrow::SchemaField* at = &field;
  while (!at->is_leaf()) at = &at->children.front();
  return at->column_index;
}

// Of a string in a list: text_lengths().
constexpr std::int64_t bytes_of_length = element_bytes(ElementType::int32);

// Bytes of a ragged column's values, decoded. A list's empty rows count as one value.
std::int64_t ragged_bytes(const parquet::RowGroupMetaData& group, int leaf, const Column& column) {
  const auto chunk = group.ColumnChunk(leaf);
  if (chunk->type() != parquet::Type::BYTE_ARRAY) {
    return chunk->num_values() * static_cast<std::int64_t>(element_bytes(column.type));
  }
  const std::int64_t lengths = column.texts ? chunk->num_values() * bytes_of_length : 0;
  const auto sizes = chunk->size_statistics();
  if (sizes && sizes->unencoded_byte_array_data_bytes) return *sizes->unencoded_byte_array_data_bytes + lengths;
  return chunk->total_uncompressed_size() + lengths;
}

}  // namespace

struct ParquetSet::File {
  DataFile data;
  std::shared_ptr<parquet::FileMetaData> footer;  // none: not kept
  std::vector<int> fields;                        // of the set's columns, in the file's schema
};

ParquetSet::~ParquetSet() = default;

ParquetSet::ParquetSet(const std::vector<std::string>& paths, const std::vector<std::string>& columns,
                       const std::map<std::string, double>& fill)
    : pool_(std::make_unique<GroupPool>()) {
  for (DataFile& found : parquet_files(paths)) {
    digest_ = mixed(mixed_with(digest_, std::filesystem::path(found.path).filename().string()) + found.bytes);
    files_.push_back(std::make_unique<File>(File{std::move(found), nullptr, {}}));
    open(*files_.back(), columns);
  }
  for (Column& column : columns_) {
    if (const auto found = fill.find(column.name); found != fill.end()) column.fill = found->second;
  }
  for (const std::int64_t rows : group_rows_) digest_ = mixed(digest_ + static_cast<std::uint64_t>(rows) + 1);
}

// The first file says which columns there are, and of which types.
void ParquetSet::open(File& file, const std::vector<std::string>& columns) {
  const bool first = files_.size() == 1;
  double seconds = 0;
  const std::string& path = file.data.path;
  const auto reader = open_reader(pool_.get(), file.data, open_first(file.data, pool_.get()), nullptr, &seconds);
  const std::shared_ptr<parquet::FileMetaData> footer = reader->parquet_reader()->metadata();
  keep(file, footer);
  const std::shared_ptr<arrow::Schema> schema = must_all(path, [&]() -> arrow::Result<std::shared_ptr<arrow::Schema>> {
    std::shared_ptr<arrow::Schema> read;
    ARROW_RETURN_NOT_OK(reader->GetSchema(&read));
    return read;
  });
  std::vector<std::string> names = columns;
  if (names.empty() && first) names = schema->field_names();
  if (names.empty()) {
    for (const Column& column : columns_) names.push_back(column.name);
    for (const std::string& name : schema->field_names()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        fail_at(path, fmt::format("it has a column '{}', which {} has not", name, files_.front()->data.path));
      }
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::vector<int> found = schema->GetAllFieldIndices(names[i]);
    if (found.size() > 1) fail_at(path, fmt::format("it has {} columns '{}'", found.size(), names[i]));
    if (found.empty()) {
      fail_at(path, fmt::format("it has no column '{}'; it has {}", names[i], fmt::join(schema->field_names(), ", ")));
    }
    const Column column = column_of(path, *schema->field(found[0]));
    if (first) columns_.push_back(column);
    if (type_text(column) != type_text(columns_[i])) {
      fail_at(path, fmt::format("column '{}' is {}, and in {} it is {}; write all files with one type", column.name,
                                type_text(column), files_.front()->data.path, type_text(columns_[i])));
    }
    file.fields.push_back(found[0]);
  }
  for (int group = 0; group < footer->num_row_groups(); ++group) {
    const auto in_footer = footer->RowGroup(group);
    const std::int64_t rows = in_footer->num_rows();
    if (rows < 0) fail_at(path, fmt::format("row group {} has {} rows; write the file again", group, rows));
    groups_.push_back({&file, group});
    group_rows_.push_back(rows);
    std::int64_t tails = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto& field = reader->manifest().schema_fields[static_cast<std::size_t>(file.fields[i])];
      if (columns_[i].ragged) tails += ragged_bytes(*in_footer, leaf_of(field), columns_[i]);
    }
    group_tails_.push_back(tails);
  }
}

std::string ParquetSet::name_of(std::size_t group) const {
  return fmt::format("{}, row group {}", groups_[group].file->data.path, groups_[group].number);
}

bool ParquetSet::is_remote() const {
  return std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file->data.is_remote(); });
}

void ParquetSet::forget_footers() {
  {
    const std::lock_guard lock(footers_lock_);
    if (footers_kept_ == 0) return;
    footers_kept_ = 0;
    for (const auto& file : files_) file->footer.reset();
  }
  malloc_trim(0);  // they are many small blocks, which malloc would keep
}

std::shared_ptr<parquet::FileMetaData> ParquetSet::kept_footer(const File& file) const {
  const std::lock_guard lock(footers_lock_);
  return file.footer;
}

void ParquetSet::keep(File& file, const std::shared_ptr<parquet::FileMetaData>& footer) const {
  const std::lock_guard lock(footers_lock_);
  if (file.footer || footers_kept_ + footer->size() > footers_kept_max) return;
  footers_kept_ += footer->size();
  file.footer = footer;
}

void ParquetSet::read_through(const std::atomic<bool>& stop, const std::function<void()>& after_part) const {
  for (const auto& file : files_) data::read_through(file->data.path, stop, after_part);
}

std::unique_ptr<DecodedGroup> ParquetSet::read(std::size_t group, const std::atomic<bool>& stop) const {
  const DataFile& file = groups_[group].file->data;
  try {
    auto decoded = decode(group, stop);
    const auto begin = std::chrono::steady_clock::now();
    if (decoded) check_same(file);
    if (decoded && file.is_remote()) decoded->disk_seconds += seconds_since(begin);
    return decoded;
  } catch (const DataError& error) {
    check_same_after(file, error.what());
    throw;
  }
}

std::unique_ptr<DecodedGroup> ParquetSet::decode(std::size_t group, const std::atomic<bool>& stop) const {
  File& file = *groups_[group].file;
  auto decoded = std::make_unique<ArrowGroup>();
  decoded->rows = group_rows_[group];
  const auto begin = std::chrono::steady_clock::now();
  auto footer = kept_footer(file);
  const bool is_kept = footer != nullptr;
  const auto reader =
      open_reader(pool_.get(), file.data, open_file(file.data, pool_.get()), std::move(footer), &decoded->disk_seconds);
  if (!is_kept) keep(file, reader->parquet_reader()->metadata());
  std::vector<int> leaves;
  for (const int field : file.fields)
    add_leaves(reader->manifest().schema_fields[static_cast<std::size_t>(field)], leaves);
  const int number = groups_[group].number;
  if (!fetch_group(name_of(group), file.data, *reader->parquet_reader(), number, leaves, stop)) return nullptr;
  if (file.data.is_remote()) decoded->disk_seconds += seconds_since(begin);
  const auto rows = reader->RowGroup(number);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (stop) return nullptr;
    const std::string where = fmt::format("{}, column '{}'", name_of(group), columns_[i].name);
    auto array = must_all(where, [&]() -> arrow::Result<std::shared_ptr<arrow::ChunkedArray>> {
      std::shared_ptr<arrow::ChunkedArray> read;
      ARROW_RETURN_NOT_OK(rows->Column(file.fields[i])->Read(&read));
      return without_dictionary(std::move(read), pool_.get());
    });
    decoded->owned.push_back(values_of(name_of(group), columns_[i], decoded->rows, std::move(array)));
    decoded->owned.back().add_spans(decoded->columns);
  }
  return decoded;
}

}  // namespace dtrain::data
