#include "data/source/input_files.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <system_error>

#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

struct Ending {
  const char* text;
  InputFormat format;
};

constexpr std::array<Ending, 8> kEndings = {{{".parquet", InputFormat::parquet},
                                             {".csv", InputFormat::csv},
                                             {".json", InputFormat::json},
                                             {".jsonl", InputFormat::json},
                                             {".ndjson", InputFormat::json},
                                             {".arrow", InputFormat::ipc},
                                             {".ipc", InputFormat::ipc},
                                             {".feather", InputFormat::ipc}}};

std::optional<InputFormat> format_of(const std::string& path) {
  const std::string ending = fs::path(path).extension().string();
  for (const Ending& known : kEndings)
    if (ending == known.text) return known.format;
  return std::nullopt;
}

bool is_hidden(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return name.empty() || name[0] == '.' || name[0] == '_';
}

std::vector<std::string> files_of_folder(const std::string& folder, std::optional<InputFormat> format) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string path = at->path().string();
    const auto ending = format_of(path);
    if (!is_hidden(path) && ending && (!format || ending == format)) found.push_back(path);
  }
  if (error) throw DataError(fmt::format("dtrain: {}: {}", folder, error.message()));
  if (found.empty())
    throw DataError(
        fmt::format("dtrain: {}: no file of this folder ends in .parquet, .csv, .json or .arrow, or as "
                    "`format` says; name the files",
                    folder));
  return found;
}

std::vector<std::string> files_of_pattern(const std::string& pattern) {
  glob_t matches{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&matches, globfree);
  std::vector<std::string> found;
  if (glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches) == 0)
    for (std::size_t i = 0; i < matches.gl_pathc; ++i)
      if (!is_hidden(matches.gl_pathv[i]) && !fs::is_directory(matches.gl_pathv[i]))
        found.emplace_back(matches.gl_pathv[i]);
  if (found.empty()) throw DataError(fmt::format("dtrain: dataset.input: no file matches {}", pattern));
  return found;
}

}  // namespace

SourceFiles input_files(const std::vector<std::string>& input, std::optional<InputFormat> format) {
  std::vector<std::string> paths;
  for (const std::string& one : input) {
    std::error_code error;
    std::vector<std::string> found{one};
    if (fs::is_directory(one, error))
      found = files_of_folder(one, format);
    else if (!fs::exists(one, error) && one.find_first_of("*?[") != std::string::npos)
      found = files_of_pattern(one);
    std::sort(found.begin(), found.end());
    paths.insert(paths.end(), found.begin(), found.end());
  }
  SourceFiles all{{}, format.value_or(InputFormat::parquet)};
  for (const std::string& path : paths) {
    std::error_code error;
    const auto bytes = static_cast<std::int64_t>(fs::file_size(path, error));
    if (error) throw DataError(fmt::format("dtrain: {}: {}", path, error.message()));
    if (bytes == 0)
      throw DataError(fmt::format("dtrain: {}: the file is empty; write it again, or take it away", path));
    const auto told = format ? format : format_of(path);
    if (!told)
      throw DataError(
          fmt::format("dtrain: {}: its ending tells no format; set `format` to parquet, csv, json or ipc, "
                      "and decompress it first if it is compressed",
                      path));
    if (!all.files.empty() && told != all.format)
      throw DataError(
          fmt::format("dtrain: {}: it has another format than {}; one recipe reads one format", path, paths.front()));
    all.format = *told;
    all.files.push_back({path, bytes});
  }
  return all;
}

}  // namespace dtrain::data
