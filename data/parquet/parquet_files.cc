#include "data/parquet/parquet_files.h"

#include <fmt/format.h>

#include <fstream>

#include "dtrain/data_errors.h"

namespace dtrain::data {

std::vector<DataFile> parquet_files(const std::vector<std::string>& paths) {
  return find_files(paths, {[](const std::string& name) { return name.ends_with(".parquet"); },
                            "no file of this folder ends in .parquet"});
}

void read_through(const std::string& path, const std::atomic<bool>& stop, const std::function<void()>& after_part) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> part(1 << 20);
  while (file && !stop) {
    file.read(part.data(), static_cast<std::streamsize>(part.size()));
    if (after_part) after_part();
  }
  if (!stop && !file.eof()) throw DataError(fmt::format("dtrain: {}: it cannot be read", path));
}

}  // namespace dtrain::data
