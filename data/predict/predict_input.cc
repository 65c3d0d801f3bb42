// Tested by test/process/data/predict_program_test.py and, in a store, by stores_test.py.
#include "data/predict/predict_input.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "data/base/store_uri.h"
#include "data/files/data_files.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

bool is_left_out(const fs::path& path) {
  return std::any_of(path.begin(), path.end(), [](const fs::path& name) {
    const char first = name.native().empty() ? '\0' : name.native()[0];
    return first == '_' || (first == '.' && name != "." && name != "..");
  });
}

[[noreturn]] void refuse_path(const std::string& path, const std::string& why) {
  throw DataError(fmt::format("dtrain: {}: {}", path, why));
}

std::vector<std::string> in_folder(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error); !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    const std::string path = at->path().string();
    if (path.ends_with(".parquet") && at->is_regular_file(error) && !is_left_out(at->path().lexically_relative(folder)))
      found.push_back(path);
  }
  if (error) refuse_path(folder, error.message());
  return found;
}

std::vector<std::string> of_pattern(const std::string& pattern) {
  glob_t matches{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&matches, globfree);
  std::vector<std::string> found;
  std::error_code error;
  if (::glob(pattern.c_str(), GLOB_NOSORT | GLOB_NOESCAPE, nullptr, &matches) == 0)
    for (std::size_t i = 0; i < matches.gl_pathc; ++i)
      if (fs::is_regular_file(matches.gl_pathv[i], error) && !is_left_out(fs::path(matches.gl_pathv[i]).filename()))
        found.emplace_back(matches.gl_pathv[i]);
  return found;
}

std::vector<PredictFile> in_store(const std::string& input) {
  const FilesWanted wanted{[](const std::string& name) { return name.ends_with(".parquet"); },
                           "no object in this folder ends with .parquet"};
  std::vector<PredictFile> files;
  for (const DataFile& file : find_files({input}, wanted))
    files.push_back({file.path, static_cast<std::int64_t>(file.bytes), file.mtime_ns});
  std::sort(files.begin(), files.end(), [](const auto& one, const auto& other) { return one.path < other.path; });
  return files;
}

std::string whole_path(const std::string& path) {
  std::string whole = fs::absolute(path).lexically_normal().string();
  if (whole.size() > 1 && whole.ends_with('/')) whole.pop_back();
  return whole;
}

}  // namespace

std::vector<PredictFile> predict_input(const std::string& input, const std::string& output) {
  if (is_store_uri(output)) refuse_path(output, "results are written into a folder of the file system");
  if (is_store_uri(input)) return in_store(input);
  std::error_code error;
  std::vector<std::string> paths{input};
  if (fs::is_directory(input, error)) {
    paths = in_folder(input);
  } else if (!fs::is_regular_file(input, error)) {
    if (auto found = of_pattern(input); !found.empty()) paths = std::move(found);
  }
  if (paths != std::vector<std::string>{input}) {
    const std::string inside = whole_path(output) + "/";
    std::erase_if(paths, [&](const std::string& path) { return whole_path(path).starts_with(inside); });
  }
  if (paths.empty()) refuse_path(input, "no file in this folder ends with .parquet");
  std::sort(paths.begin(), paths.end());
  std::vector<PredictFile> files;
  for (const std::string& path : paths) {
    struct stat facts = {};
    if (::stat(path.c_str(), &facts) != 0) refuse_path(path, std::generic_category().message(errno));
    constexpr std::int64_t kSecond = 1'000'000'000;
    files.push_back({whole_path(path), facts.st_size, facts.st_mtim.tv_sec * kSecond + facts.st_mtim.tv_nsec});
  }
  return files;
}

std::string digest_of_program(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ProgramDigest digest;
  std::vector<char> piece(1 << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    digest.add(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (!file.eof()) refuse_path(path, "the program cannot be read");
  return digest.text();
}

}  // namespace dtrain::data
