// Tested by test/unit/cli/engines/hosts_test.cc.
#include "cli/engines/sent_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace dtrain::cli {
namespace {

constexpr std::array kPlacing = {FlagId::engine,     FlagId::hosts,   FlagId::hostfile,   FlagId::include,
                                 FlagId::exclude,    FlagId::ssh,     FlagId::srun,       FlagId::spark,
                                 FlagId::resources,  FlagId::ship,    FlagId::ship_files, FlagId::ship_limit,
                                 FlagId::ssh_fanout, FlagId::dry_run, FlagId::config};

}  // namespace

bool places_job(FlagId id) { return std::find(kPlacing.begin(), kPlacing.end(), id) != kPlacing.end(); }

std::vector<std::string> words_to_send(const RawOptions& raw) {
  std::vector<std::string> words;
  for (const Flag& row : flags()) {
    const auto& typed = raw[row.id];
    if (!typed || places_job(row.id)) continue;
    words.push_back(row.is_switch() && typed->text == "1" ? spelled(row)
                                                          : fmt::format("{}={}", spelled(row), typed->text));
  }
  words.emplace_back("--");
  words.insert(words.end(), raw.command.begin(), raw.command.end());
  return words;
}

std::map<std::string, std::string> origins_to_send(const RawOptions& raw) {
  std::map<std::string, std::string> origins;
  for (const Flag& row : flags())
    if (const auto& value = raw[row.id]; value && value->origin == Origin::file && !places_job(row.id))
      origins.emplace(row.name, value->where);
  return origins;
}

void take_origins(const std::map<std::string, std::string>& origins, RawOptions& raw) {
  for (const auto& [name, where] : origins) {
    const Flag* row = find_flag(name);
    if (row == nullptr || !raw[row->id]) continue;
    raw[row->id]->origin = Origin::file;
    raw[row->id]->where = where;
  }
}

std::vector<std::string> split_at_blanks(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) break;
    text.remove_prefix(first);
    const auto end = std::min(text.find_first_of(" \t"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

}  // namespace dtrain::cli
