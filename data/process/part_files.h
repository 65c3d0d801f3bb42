#pragma once
// The Parquet files of the parts of a split, written by many threads.
#include <arrow/record_batch.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace arrow::io {
class OutputStream;
}
namespace parquet::arrow {
class FileWriter;
}

namespace dtrain::data {

// One file, in row groups of the same number of rows, but for the last.
class PartFile {
 public:
  PartFile(std::filesystem::path path, std::shared_ptr<arrow::Schema> schema, std::int64_t group_rows);
  ~PartFile();
  // The file is made when the first rows come.
  void add(const arrow::RecordBatch& rows);
  // `empty`: the file is to be there without rows, too.
  void close(bool empty = false);
  std::int64_t rows() const { return rows_; }

 private:
  void open();

  const std::filesystem::path path_;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::int64_t group_rows_;
  const std::int64_t rows_at_once_;
  std::shared_ptr<arrow::io::OutputStream> out_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  std::int64_t rows_ = 0;
};

// FOLDER/train/part-00000.parquet and so on, at most `files_max` of a part. Files get numbers without gaps when all are
// written, whatever the numbers under which they were written.
class PartFiles {
 public:
  PartFiles(std::filesystem::path folder, std::vector<std::string> parts, std::shared_ptr<arrow::Schema> schema,
            std::int64_t group_rows, std::size_t files_max);

  std::unique_ptr<PartFile> file(std::size_t part, std::size_t number) const;
  // The same under another name for now.
  std::unique_ptr<PartFile> draft(std::filesystem::path path) const;
  std::filesystem::path path(std::size_t part, std::size_t number) const;
  // By many threads at once, each file once.
  void closed(std::size_t part, std::size_t number, std::int64_t rows);

  struct Part {
    std::string name;
    std::int64_t rows = 0, bytes = 0;
    std::size_t files = 0;
  };
  // A part without rows gets a file without rows: it says which columns there are.
  std::vector<Part> finish();

 private:
  const std::filesystem::path folder_;
  const std::vector<std::string> parts_;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::int64_t group_rows_;
  const std::size_t files_max_;
  std::mutex mutex_;
  std::vector<std::vector<std::size_t>> numbers_;  // of each part's files
  std::vector<std::int64_t> rows_;                 // of each part
};

}  // namespace dtrain::data
