// Tested by test/unit/cli/data/data_words_test.cc.
#include "cli/data/dataset_found.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/base/text.h"

namespace dtrain::cli {
namespace {

constexpr std::string_view kDatasetVariable = "DTRAIN_DATASET";

std::string variable_of_split(const std::string& split) {
  if (split == "train") return std::string(kDatasetVariable);
  std::string name = upper(split);
  for (char& c : name)
    if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) c = '_';
  return fmt::format("{}_{}", kDatasetVariable, name);
}

}  // namespace

Result<DatasetFound> parse_dataset_found(const std::string& answer) {
  const auto json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("folder") || !json.contains("rows"))
    return Error{ErrorKind::system, "dtrain-data has not said where the data set is: is it of this dtrain's version?"};
  DatasetFound found;
  found.folder = json["folder"].get<std::string>();
  std::string rows;
  for (const auto& [split, count] : json["rows"].items()) {
    found.variables[variable_of_split(split)] = found.folder + "/" + split;
    found.rows += count.get<std::uint64_t>();
    rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ", printable(split), count.get<std::uint64_t>());
  }
  // Who reads it need not know how it was divided.
  found.line = fmt::format("data set {} ({} rows): {}", json["built"].get<bool>() ? "built" : "found", rows,
                           printable(found.folder, 400));
  return found;
}

}  // namespace dtrain::cli
