// CSV and JSON files as sources. A unit is a run of whole lines, cut at places that only the file decides, so it can be
// parsed by itself; no value has a line break in it.
#include <arrow/buffer.h>
#include <arrow/csv/api.h>
#include <arrow/io/interfaces.h>
#include <arrow/io/memory.h>
#include <arrow/json/api.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/files/open_file.h"
#include "data/source/source.h"

namespace dtrain::data {
namespace {

constexpr std::int64_t kUnitBytes = std::int64_t{4} << 20;
// What is looked at to find the types of the columns.
constexpr std::int64_t kSampleBytes = std::int64_t{1} << 20;
constexpr std::int64_t kLineBytesMax = std::int64_t{1} << 28;

class Lines {
 public:
  explicit Lines(const DataFile& file) : Lines(file.path, open_file(file)) {}
  Lines(const std::string& path, arrow::Result<OpenedFile> opened) : path_(path), file_(must(path, std::move(opened))) {
    size_ = must(path, file_->GetSize());
  }
  std::int64_t size() const { return size_; }

  std::shared_ptr<arrow::Buffer> read(std::int64_t begin, std::int64_t end) const {
    return must(path_, file_->ReadAt(begin, end - begin));
  }

  // Where the first line begins that does not begin before `at`.
  std::int64_t line_from(std::int64_t at) const {
    constexpr std::int64_t kPiece = 1 << 16;
    if (at <= 0) return 0;
    for (std::int64_t piece = at - 1; piece < size_; piece += kPiece) {
      if (piece - at > kLineBytesMax) fail_at(path_, fmt::format("a line after byte {} has no end", at));
      const auto buffer = read(piece, std::min(size_, piece + kPiece));
      if (const auto found = std::string_view(*buffer).find('\n'); found != std::string_view::npos)
        return piece + static_cast<std::int64_t>(found) + 1;
    }
    return size_;
  }

  // Where the line after the first one begins that is not empty: that one is the header.
  std::int64_t after_header() const {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";  // of UTF-8
    const auto buffer = read(0, std::min(size_, kSampleBytes));
    const std::string_view text(*buffer);
    const std::size_t header = text.find_first_not_of("\r\n", text.starts_with(kMark) ? kMark.size() : 0);
    return header == std::string_view::npos ? size_ : line_from(static_cast<std::int64_t>(header) + 1);
  }

  // Lines that are not empty, before `end`.
  std::int64_t count(std::int64_t begin, std::int64_t end) const {
    std::int64_t lines = 0;
    bool empty = true;
    for (std::int64_t at = begin; at < end; at += kSampleBytes) {
      const auto buffer = read(at, std::min(end, at + kSampleBytes));
      for (const char letter : std::string_view(*buffer)) {
        lines += letter == '\n' && !empty ? 1 : 0;
        empty = letter == '\n' || (empty && letter == '\r');
      }
    }
    return lines;
  }

 private:
  std::string path_;
  OpenedFile file_;
  std::int64_t size_ = 0;
};

bool is_blank(const arrow::Buffer& text) {
  return std::string_view(text).find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Arrow says "Row #3: ...", counted from 1, or "... in row 2", counted from 0, of what it was given.
std::optional<std::int64_t> row_told(const std::string& message) {
  for (const auto& [word, first] : {std::pair<std::string_view, int>{"Row #", 1}, {"in row ", 0}}) {
    const std::size_t at = message.find(word);
    if (at == std::string::npos) continue;
    const char* begin = message.data() + at + word.size();
    std::int64_t row = 0;
    if (std::from_chars(begin, message.data() + message.size(), row).ec == std::errc()) return row - first;
  }
  return std::nullopt;
}

class TextSource : public Source {
 public:
  TextSource(std::vector<DataFile> files, InputFormat format,
             const std::vector<std::pair<std::string, ColumnType>>& types, const std::vector<std::string>& columns)
      : csv_(format == InputFormat::csv), wanted_(columns.begin(), columns.end()) {
    for (DataFile& input : files) add(std::move(input), types);
  }

  Arrays read_unit(std::size_t unit, const std::vector<int>& columns) const override {
    const Unit& one = units_[unit];
    const File& file = files_[one.file];
    const auto text = Lines(file.data).read(one.begin, one.end);
    arrow::Result<std::shared_ptr<arrow::Table>> table =
        is_blank(*text) ? arrow::Table::MakeEmpty(schema_)
                        : (csv_ ? parse_csv(text, file.names, columns) : parse_json(text));
    if (!table.ok()) {
      const std::string& message = table.status().message();
      const auto row = row_told(message);
      fail_at(row ? where(unit, *row) : fmt::format("{}, bytes {} to {}", file.data.path, one.begin, one.end),
              fmt::format("{}. If the type is wrong, begin the steps with a cast to another",
                          message.substr(0, message.find('\n'))));
    }
    Arrays arrays;
    for (const int column : columns) {
      const auto& field = *schema_->field(column);
      const auto values = (*table)->GetColumnByName(field.name());
      arrays.push_back(plain_array(file.data.path, values->chunks(), field.type()));
    }
    return arrays;
  }

  const DataFile& file_of(std::size_t unit) const override { return files_[units_[unit].file].data; }

  std::string where(std::size_t unit, std::int64_t row) const override {
    const Unit& one = units_[unit];
    const File& file = files_[one.file];
    return fmt::format("{}, row {}", file.data.path, Lines(file.data).count(file.begin, one.begin) + row + 1);
  }

 private:
  struct File {
    DataFile data;
    std::vector<std::string> names;  // of a CSV file, in its own order
    std::int64_t begin = 0;          // where the first row is
  };

  void add(DataFile data, const std::vector<std::pair<std::string, ColumnType>>& types) {
    const std::string path = data.path;
    const Lines lines(path, open_first(data));
    File file{std::move(data), {}, csv_ ? lines.after_header() : 0};
    const std::int64_t sample_end = std::max(lines.line_from(std::min(kSampleBytes, lines.size())), file.begin);
    const auto sample = lines.read(0, sample_end);
    if (is_blank(*sample)) fail_at(path, "there is nothing in the file but blank lines");
    const auto told = csv_ ? csv_schema(sample) : json_schema(sample);
    if (!told.ok()) {  // the header of a CSV file is its row 0 here
      const auto row = row_told(told.status().message());
      fail_at(row ? fmt::format("{}, row {}", path, *row + (csv_ ? 0 : 1)) : path, told.status().message());
    }
    const auto& found = *told;
    if (csv_) file.names = found->field_names();
    if (!schema_)
      take_schema(path, *found, types);
    else
      check_names(path, *found);
    files_.push_back(file);
    for (std::int64_t at = file.begin; at < lines.size();) {
      const std::int64_t end = lines.line_from(std::min(at + kUnitBytes, lines.size()));
      units_.push_back({files_.size() - 1, at, end, end - at});
      at = end;
    }
  }

  void take_schema(const std::string& path, const arrow::Schema& found,
                   const std::vector<std::pair<std::string, ColumnType>>& types) {
    arrow::FieldVector fields;
    for (const auto& field : found.fields()) {
      if (!counts(*field)) continue;
      auto type = plain_type(field->type());
      for (const auto& [name, wanted] : types)
        if (name == field->name()) type = arrow_type(wanted);
      if (type->id() == arrow::Type::NA)
        fail_at(path, fmt::format("column '{}' has no value in the first {} kB, so its type is not known; begin the "
                                  "steps with a cast of it",
                                  field->name(), kSampleBytes >> 10));
      fields.push_back(arrow::field(field->name(), type));
    }
    if (fields.empty() && !wanted_.empty()) fail_at(path, "it has none of the columns that the recipe reads");
    schema_ = arrow::schema(fields);
  }

  bool counts(const arrow::Field& field) const { return wanted_.empty() || wanted_.contains(field.name()); }

  // Types are those of the first file: a value that does not fit is an error of its row.
  void check_names(const std::string& path, const arrow::Schema& found) const {
    arrow::FieldVector fields;
    for (const auto& field : found.fields()) {
      if (!counts(*field)) continue;
      const auto known = schema_->GetFieldByName(field->name());
      fields.push_back(known ? known : field);
    }
    if (!csv_)  // a line of JSON may leave out a column: it is null there
      for (const auto& field : schema_->fields())
        if (!found.GetFieldByName(field->name())) fields.push_back(field);
    check_schema(files_.front().data.path, *schema_, path, arrow::Schema(fields));
  }

  static arrow::csv::ConvertOptions csv_convert() {
    auto convert = arrow::csv::ConvertOptions::Defaults();
    convert.strings_can_be_null = true;
    convert.quoted_strings_can_be_null = false;
    return convert;
  }

  static arrow::csv::ReadOptions csv_read(std::int64_t bytes) {
    auto read = arrow::csv::ReadOptions::Defaults();
    read.use_threads = false;
    read.block_size = static_cast<std::int32_t>(bytes + 1);
    return read;
  }

  static arrow::json::ReadOptions json_read(std::int64_t bytes) {
    auto read = arrow::json::ReadOptions::Defaults();
    read.use_threads = false;
    read.block_size = static_cast<std::int32_t>(bytes + 1);
    return read;
  }

  static arrow::Result<std::shared_ptr<arrow::Schema>> csv_schema(const std::shared_ptr<arrow::Buffer>& sample) {
    const auto input = std::make_shared<arrow::io::BufferReader>(sample);
    ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::csv::StreamingReader::Make(
                                                 arrow::io::default_io_context(), input, csv_read(sample->size()),
                                                 arrow::csv::ParseOptions::Defaults(), csv_convert()));
    return reader->schema();
  }

  static arrow::Result<std::shared_ptr<arrow::Schema>> json_schema(const std::shared_ptr<arrow::Buffer>& sample) {
    const auto input = std::make_shared<arrow::io::BufferReader>(sample);
    ARROW_ASSIGN_OR_RAISE(const auto reader,
                          arrow::json::TableReader::Make(arrow::default_memory_pool(), input, json_read(sample->size()),
                                                         arrow::json::ParseOptions::Defaults()));
    ARROW_ASSIGN_OR_RAISE(const auto table, reader->Read());
    return table->schema();
  }

  arrow::Result<std::shared_ptr<arrow::Table>> parse_csv(const std::shared_ptr<arrow::Buffer>& text,
                                                         const std::vector<std::string>& names,
                                                         const std::vector<int>& columns) const {
    auto read = csv_read(text->size());
    read.column_names = names;
    auto convert = csv_convert();
    for (const auto& field : schema_->fields()) convert.column_types[field->name()] = field->type();
    for (const int column : columns) convert.include_columns.push_back(schema_->field(column)->name());
    const auto input = std::make_shared<arrow::io::BufferReader>(text);
    ARROW_ASSIGN_OR_RAISE(const auto reader,
                          arrow::csv::TableReader::Make(arrow::io::default_io_context(), input, read,
                                                        arrow::csv::ParseOptions::Defaults(), convert));
    return reader->Read();
  }

  arrow::Result<std::shared_ptr<arrow::Table>> parse_json(const std::shared_ptr<arrow::Buffer>& text) const {
    auto parse = arrow::json::ParseOptions::Defaults();
    parse.explicit_schema = schema_;
    parse.unexpected_field_behavior =
        wanted_.empty() ? arrow::json::UnexpectedFieldBehavior::Error : arrow::json::UnexpectedFieldBehavior::Ignore;
    const auto input = std::make_shared<arrow::io::BufferReader>(text);
    ARROW_ASSIGN_OR_RAISE(const auto reader, arrow::json::TableReader::Make(arrow::default_memory_pool(), input,
                                                                            json_read(text->size()), parse));
    return reader->Read();
  }

  bool csv_;
  std::set<std::string> wanted_;  // columns; none: all
  std::vector<File> files_;
};

}  // namespace

std::unique_ptr<Source> open_text(std::vector<DataFile> files, InputFormat format,
                                  const std::vector<std::pair<std::string, ColumnType>>& types,
                                  const std::vector<std::string>& columns) {
  return std::make_unique<TextSource>(std::move(files), format, types, columns);
}

}  // namespace dtrain::data
