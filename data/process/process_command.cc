#include "data/process/process_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "data/process/process.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

nlohmann::json json_of(const ProcessReport& report) {
  nlohmann::json parts = nlohmann::json::object();
  for (const PartReport& part : report.parts)
    parts[part.name] = {{"rows", part.rows}, {"files", part.files}, {"bytes", part.bytes}};
  return {{"rows_read", report.rows_read},
          {"parts", parts},
          {"partitions", report.partitions},
          {"passes", report.passes},
          {"threads", report.threads},
          {"memory_limit_bytes", report.memory_limit_bytes},
          {"spilled_bytes", report.spilled_bytes}};
}

// The most memory that this process has had.
std::int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw RecipeError(path, "it cannot be read");
  try {
    return nlohmann::json::parse(in);
  } catch (const nlohmann::json::exception& error) {
    throw RecipeError(path, error.what());
  }
}

// fmt::print() would throw if standard error is closed or full.
void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace

int run_process(std::span<const std::string_view> words) {
  if (words.size() != 2) {
    std::fputs("usage: dtrain-data process RECIPE.json FOLDER\n", stderr);
    return 2;
  }
  try {
    const Recipe recipe = parse_recipe(read_json(std::string(words[0])));
    const ProcessReport report = process(recipe, std::filesystem::path(words[1]), {});
    nlohmann::json told = json_of(report);
    told["peak_memory_bytes"] = peak_memory_bytes();
    fmt::print("{}\n", told.dump());
    return 0;
  } catch (const RecipeError& error) {
    say(error.what());
    return 2;
  } catch (const DataError& error) {
    say(error.what());
    return 1;
  } catch (const std::exception& error) {
    say(fmt::format("dtrain: dtrain-data process: {}", error.what()));
    return 125;
  }
}

}  // namespace dtrain::data
