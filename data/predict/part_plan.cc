#include "data/predict/part_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/base/random_bits.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr std::size_t kFewestDigits = 5;

bool same_files(const std::vector<PredictFile>& mine, const std::vector<PredictFile>& theirs) {
  return std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end(), [](const auto& one, const auto& other) {
    return one.path == other.path && one.bytes == other.bytes && one.mtime_ns == other.mtime_ns;
  });
}

}  // namespace

std::string plan_text(const PartsPlan& plan) {
  nlohmann::json files = nlohmann::json::array();
  for (const PredictFile& file : plan.files)
    files.push_back(
        {{"path", file.path}, {"bytes", file.bytes}, {"mtime_ns", file.mtime_ns}, {"row_groups", file.row_groups}});
  const nlohmann::json json = {{"format", plan.format},
                               {"kind", plan.kind},
                               {"script", plan.script},
                               {"arguments", plan.arguments},
                               {"files", files}};
  try {
    return json.dump() + "\n";
  } catch (const nlohmann::json::exception&) {
    throw DataError("dtrain: the path of an input file, or an argument, is no text in UTF-8; name it otherwise");
  }
}

std::optional<PartsPlan> parse_plan(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    PartsPlan plan;
    plan.format = json.at("format").get<int>();
    plan.kind = json.at("kind").get<std::string>();
    plan.script = json.at("script").get<std::string>();
    plan.arguments = json.at("arguments").get<std::vector<std::string>>();
    for (const auto& file : json.at("files"))
      plan.files.push_back({file.at("path").get<std::string>(), file.at("bytes").get<std::int64_t>(),
                            file.at("mtime_ns").get<std::int64_t>(),
                            file.at("row_groups").get<std::vector<std::int64_t>>()});
    return plan;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string plan_difference(const PartsPlan& mine, const PartsPlan& theirs, const std::string& program) {
  if (mine.format != theirs.format) return "was written by another version of dtrain";
  if (mine.kind != theirs.kind) return "is not of " + mine.kind + "()";
  if (mine.script != theirs.script) return "was made with another " + program;
  if (mine.arguments != theirs.arguments) return "was made with other arguments";
  return same_files(mine.files, theirs.files) ? "" : "was made of other input files";
}

std::vector<Part> parts_of(const std::vector<PredictFile>& files) {
  std::vector<Part> parts;
  for (std::size_t file = 0; file < files.size(); ++file) {
    std::int64_t first = 0;
    for (std::size_t group = 0; group < files[file].row_groups.size(); ++group) {
      const std::int64_t rows = files[file].row_groups[group];
      if (rows > 0) parts.push_back({parts.size(), file, static_cast<int>(group), first, rows});
      first += rows;
    }
  }
  return parts;
}

std::string part_words(const Part& part, const std::string& path) {
  return fmt::format("row group {} of {} (rows {} to {})", part.group, path, part.first, part.first + part.rows - 1);
}

std::string result_name(std::size_t number, std::size_t count) {
  return fmt::format("part-{:0{}}.parquet", number, std::max(kFewestDigits, std::to_string(count).size()));
}

std::string name_beside(std::size_t number, const std::string& ending) {
  return fmt::format("{:0{}}.{}", number, kFewestDigits, ending);
}

void ProgramDigest::add(const char* bytes, std::size_t count) {
  for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::copy_n(bytes + at, std::min(sizeof word, count - at), reinterpret_cast<char*>(&word));
    one_ = mixed(one_ + word + 1);
    other_ = mixed((other_ ^ word) + 0x9E3779B97F4A7C15ULL);
  }
  one_ = mixed(one_ + count);
}

std::string ProgramDigest::text() const { return fmt::format("{:016x}{:016x}", one_, other_); }

}  // namespace dtrain::data
