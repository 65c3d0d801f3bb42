#pragma once
// Which files a data set consists of.
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain::data {

struct ParquetFile {
  std::string path;
  std::uint64_t bytes = 0;
};

// The files of `paths`: the file itself, or of a folder all that end in .parquet, sorted by name. Names that begin with
// '.' or '_' are left out: writers use them for what is not finished, and for notes. Throws DataError if there is none,
// or if one is empty or no file.
std::vector<ParquetFile> parquet_files(const std::vector<std::string>& paths);

// Reads the file once from its begin to its end, so that the kernel has it in memory, or until `stop` is true. Throws
// DataError.
void read_through(const std::string& path, const std::atomic<bool>& stop);

}  // namespace dtrain::data
