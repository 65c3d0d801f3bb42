#include "data/source/input_files.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

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

}  // namespace

SourceFiles input_files(const std::vector<std::string>& input, std::optional<InputFormat> format) {
  const auto is_input = [&](const std::string& name) {
    const auto ending = format_of(name);
    return ending && (!format || ending == format);
  };
  SourceFiles all{find_files(input, {is_input,
                                     "no file of this folder ends in .parquet, .csv, .json or .arrow, or as "
                                     "`format` says; name the files"}),
                  format.value_or(InputFormat::parquet)};
  for (const DataFile& file : all.files) {
    const auto told = format ? format : format_of(file.path);
    if (!told)
      throw DataError(
          fmt::format("dtrain: {}: its ending tells no format; set `format` to parquet, csv, json or ipc, "
                      "and decompress it first if it is compressed",
                      file.path));
    const std::string& first = all.files.front().path;
    if (file.path != first && told != all.format)
      throw DataError(
          fmt::format("dtrain: {}: it has another format than {}; one recipe reads one format", file.path, first));
    all.format = *told;
  }
  return all;
}

}  // namespace dtrain::data
