#include "data/parquet/parquet_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

bool is_data(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name.ends_with(".parquet") && name[0] != '.' && name[0] != '_';
}

void add_folder(const fs::path& folder, std::vector<std::string>& paths) {
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  const std::size_t before = paths.size();
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    if (is_data(*entries)) paths.push_back(entries->path().string());
  }
  if (error) throw DataError(fmt::format("dtrain: {}: {}", folder.string(), error.message()));
  if (paths.size() == before) {
    throw DataError(fmt::format("dtrain: {}: no file of this folder ends in .parquet", folder.string()));
  }
  std::sort(paths.begin() + static_cast<std::ptrdiff_t>(before), paths.end());
}

}  // namespace

std::vector<ParquetFile> parquet_files(const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      add_folder(path, all);
    } else {
      all.push_back(path);
    }
  }
  std::vector<ParquetFile> files;
  for (const std::string& path : all) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(path, error);
    if (error) throw DataError(fmt::format("dtrain: {}: {}", path, error.message()));
    if (bytes == 0) {
      throw DataError(fmt::format("dtrain: {}: the file is empty; write it again, or take it away", path));
    }
    files.push_back({path, bytes});
  }
  return files;
}

void read_through(const std::string& path, const std::atomic<bool>& stop) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> part(1 << 20);
  while (file && !stop) file.read(part.data(), static_cast<std::streamsize>(part.size()));
  if (!stop && !file.eof()) throw DataError(fmt::format("dtrain: {}: it cannot be read", path));
}

}  // namespace dtrain::data
