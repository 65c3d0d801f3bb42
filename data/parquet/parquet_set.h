#pragma once
// Parquet files of one schema, as a table of row groups that can be read one by one. The files are opened again for
// each row group, with the footer of the first time if all footers are small, so a set of any size holds one descriptor
// open and takes little memory. Of objects in a store, a row group's bytes wait in memory while they are decoded.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/base/row_layout.h"

namespace parquet {
class FileMetaData;
}

namespace dtrain::data {

// The columns of a row group, in the order of TensorColumns: of lists of strings there are two.
class DecodedGroup {
 public:
  virtual ~DecodedGroup() = default;
  std::int64_t rows = 0;
  std::vector<ColumnSpan> columns;
  double disk_seconds = 0;  // that reading its bytes took
};

class GroupPool;

class ParquetSet {
 public:
  // `columns`: which ones, in which order; all if there are none. `fill`: Column::fill by name. Reads the footers of
  // all files. Throws DataError.
  ParquetSet(const std::vector<std::string>& paths, const std::vector<std::string>& columns,
             const std::map<std::string, double>& fill);
  ~ParquetSet();

  const std::vector<Column>& columns() const { return columns_; }
  // Rows of each row group, file by file.
  const std::vector<std::int64_t>& group_rows() const { return group_rows_; }
  // Bytes that the ragged columns have in each row group, by the footers. If a writer has not noted how long its
  // strings are, they count as they lie in the file, where strings that are there twice may take less.
  const std::vector<std::int64_t>& group_tails() const { return group_tails_; }
  // Of the files' names and sizes, and of the rows of their groups. The folder is not in it, so a data set may move.
  std::uint64_t digest() const { return digest_; }
  // "FILE, row group 3"
  std::string name_of(std::size_t group) const;

  // Whether files are in an object store.
  bool is_remote() const;

  // Gives back the memory of the footers, for who does not call read(), which reads each again once. Another thread may
  // be in read().
  void forget_footers();
  // Reads all files once, so that the kernel has them in memory as far as there is room. Calls `after_part`, if
  // that is one, at least each MB. Throws DataError.
  void read_through(const std::atomic<bool>& stop, const std::function<void()>& after_part = {}) const;
  // What it returns must not outlive the set. Throws DataError. Returns nothing if `stop` became true before it was
  // read.
  std::unique_ptr<DecodedGroup> read(std::size_t group, const std::atomic<bool>& stop) const;

 private:
  struct File;
  struct Group {
    File* file;
    int number;  // in its file
  };
  std::unique_ptr<DecodedGroup> decode(std::size_t group, const std::atomic<bool>& stop) const;
  void open(File& file, const std::vector<std::string>& columns);
  std::shared_ptr<parquet::FileMetaData> kept_footer(const File& file) const;
  // If there is room for it.
  void keep(File& file, const std::shared_ptr<parquet::FileMetaData>& footer) const;

  std::unique_ptr<GroupPool> pool_;  // what read() returns must not outlive it
  std::vector<std::unique_ptr<File>> files_;
  std::vector<Group> groups_;
  std::vector<Column> columns_;
  std::vector<std::int64_t> group_rows_, group_tails_;
  std::uint64_t digest_ = 0;
  mutable std::mutex footers_lock_;  // for these bytes, and the footers of the files
  mutable std::uint64_t footers_kept_ = 0;
};

}  // namespace dtrain::data
