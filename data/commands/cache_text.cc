// Tested by test/unit/data/commands/commands_test.cc.
#include "data/commands/cache_text.h"

#include <fmt/format.h>

#include <array>

#include "data/base/one_line.h"

namespace dtrain::data {
namespace {

using TextJson = nlohmann::ordered_json;

constexpr std::size_t kShortKey = 12;

std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string inputs_text(const std::vector<CacheInput>& inputs) {
  if (inputs.empty()) return "";
  const std::string first = one_line(inputs[0].path);
  return inputs.size() == 1 ? first : fmt::format("{} and {} more", first, inputs.size() - 1);
}

std::string state_text(const EntryLine& entry) {
  if (!entry.damage.empty()) return "  damaged: " + one_line(entry.damage);
  return entry.held ? "  in use" : "";
}

}  // namespace

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1000 && unit + 1 < kUnits.size(); ++unit) size /= 1000;
  return fmt::format("{:.{}f} {}", size, unit == 0 || size >= 100 ? 0 : 1, kUnits[unit]);
}

std::string age_text(std::chrono::seconds age) {
  if (age < std::chrono::minutes(2)) return fmt::format("{} s", age.count());
  if (age < std::chrono::hours(2)) return fmt::format("{} min", age / std::chrono::minutes(1));
  if (age < std::chrono::hours(48)) return fmt::format("{} h", age / std::chrono::hours(1));
  return fmt::format("{} d", age / std::chrono::hours(24));
}

std::string entries_text(const std::vector<EntryLine>& entries) {
  if (entries.empty()) return "the cache is empty\n";
  std::string out =
      fmt::format("{:<{}}  {:>8}  {:>8}  {:>9}  {:>12}  inputs\n", "key", kShortKey, "age", "unused", "size", "rows");
  std::uint64_t bytes = 0;
  for (const EntryLine& each : entries) {
    bytes += each.meta.bytes();
    out += fmt::format("{}  {:>8}  {:>8}  {:>9}  {:>12}  {}{}\n", each.key.substr(0, kShortKey), age_text(each.age),
                       age_text(each.unused), size_text(each.meta.bytes()), each.meta.all_rows(),
                       inputs_text(each.meta.inputs), state_text(each));
  }
  return out + fmt::format("{}, {}\n", entries.size() == 1 ? "1 entry" : fmt::format("{} entries", entries.size()),
                           size_text(bytes));
}

std::string entries_json(const std::vector<EntryLine>& entries) {
  TextJson json = TextJson::array();
  for (const EntryLine& each : entries) {
    TextJson inputs = TextJson::array();
    for (const CacheInput& input : each.meta.inputs) inputs.push_back(input.path);
    json.push_back({{"key", each.key},
                    {"age_s", each.age.count()},
                    {"unused_s", each.unused.count()},
                    {"bytes", each.meta.bytes()},
                    {"rows", each.meta.rows},
                    {"inputs", inputs},
                    {"in_use", each.held},
                    {"damage", each.damage}});
  }
  return json.dump(2, ' ', false, TextJson::error_handler_t::replace) + "\n";
}

std::string gc_text(std::size_t entries, std::size_t leftovers, std::uint64_t bytes_left) {
  return fmt::format("removed {} and {} of dead builds; {} stay\n",
                     entries == 1 ? "1 entry" : fmt::format("{} entries", entries), counted(leftovers, "leftover"),
                     size_text(bytes_left));
}

std::string got_text(const CacheMeta& meta, const std::string& folder, bool built) {
  std::string rows;
  for (const auto& [split, count] : meta.rows) rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ", split, count);
  return fmt::format("key     {}\n{}\nrows    {}\nfiles   {}, {}\nfolder  {}\n", meta.key,
                     built ? fmt::format("built   in {:.1f} s", meta.seconds) : "found   it was built before", rows,
                     counted(meta.files.size(), "file"), size_text(meta.bytes()), one_line(folder));
}

std::string got_json(const CacheMeta& meta, const std::string& folder, bool built) {
  const TextJson json = {{"key", meta.key},   {"built", built},        {"seconds", meta.seconds},
                         {"rows", meta.rows}, {"bytes", meta.bytes()}, {"files", meta.files.size()},
                         {"folder", folder}};
  return json.dump(-1, ' ', false, TextJson::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::data
