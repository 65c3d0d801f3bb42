#pragma once
// Which files a data set consists of.
#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "data/files/data_files.h"

namespace dtrain::data {

// The files of `paths`, each a file, a pattern, or a folder, of which all count that end in .parquet. Throws DataError
// as find_files() does.
std::vector<DataFile> parquet_files(const std::vector<std::string>& paths);

// Reads the file once from its begin to its end, so that the kernel has it in memory, or until `stop` is true. Calls
// `after_part`, if that is one, at least each MB. Throws DataError.
void read_through(const std::string& path, const std::atomic<bool>& stop, const std::function<void()>& after_part);

}  // namespace dtrain::data
