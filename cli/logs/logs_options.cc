// Parses the words of `dtrain logs`.
#include "cli/logs/logs_options.h"

#include <fmt/format.h>

#include <cstring>
#include <ctime>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/table/command_table.h"

namespace dtrain::cli {
namespace {

const CommandFlag* find(const std::string& name) {
  const Command* logs = find_command("logs");
  for (const CommandFlag& row : logs->flags)
    if (row.name == name || (name.size() == 1 && row.letter == name[0])) return &row;
  return nullptr;
}

Result<void> take(LogsOptions& options, std::string_view name, const std::string& value, int64_t now) {
  constexpr int kMostRestarts = 1000000;
  if (name == "grep") {
    options.text = value;
  } else if (name == "stdout") {
    options.streams = launcher::Streams::out;
  } else if (name == "stderr") {
    options.streams = launcher::Streams::err;
  } else if (name == "follow") {
    options.follow = true;
  } else if (name == "since") {
    auto since = parse_since(value, now);
    if (!since) return since.error();
    options.since_unix = *since;
  } else if (name == "attempt") {
    auto attempt = parse_number(value, 0, kMostRestarts);
    if (!attempt) return attempt.error();
    options.attempt = *attempt;
  } else {
    auto ranks = parse_ranks(value, kMostRank);
    if (!ranks) return ranks.error();
    options.ranks = *ranks;
  }
  return {};
}

}  // namespace

Result<int64_t> parse_since(std::string_view text, int64_t now) {
  constexpr int kMost = 1000000000;
  constexpr std::pair<char, int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  for (const auto& [letter, seconds] : kUnits) {
    if (!text.ends_with(letter)) continue;
    if (auto count = parse_number(text.substr(0, text.size() - 1), 0, kMost)) return now - *count * seconds;
  }
  const std::string whole(text);
  for (const char* form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d",
                           "%H:%M:%S", "%H:%M"}) {
    std::tm parts{};
    const auto at = static_cast<std::time_t>(now);
    ::localtime_r(&at, &parts);
    parts.tm_hour = parts.tm_min = parts.tm_sec = 0;
    const char* end = ::strptime(whole.c_str(), form, &parts);
    if (end == nullptr || *end != 0) continue;
    parts.tm_isdst = -1;
    return static_cast<int64_t>(::mktime(&parts));
  }
  return usage_error("expected 30s, 10m, 2h, 1d, 13:00, 2026-11-21 or 2026-11-21T13:00:00");
}

Result<LogsOptions> parse_logs(const std::vector<std::string>& words, int64_t now) {
  LogsOptions options;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-') || word == "-") {
      if (!options.folder.empty()) return usage_error("one folder at a time: " + printable(word));
      options.folder = word;
      continue;
    }
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    const std::string typed = word.substr(0, equals);
    const CommandFlag* row = find(typed.substr(typed.starts_with("--") ? 2 : 1));
    if (row == nullptr) return unknown_flag(*find_command("logs"), typed);
    std::string value;
    if (row->value.empty()) {
      if (equals != std::string::npos) return usage_error(typed + " takes no value");
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (++i < words.size()) {
      value = words[i];
    } else {
      return usage_error(fmt::format("{} needs a value: {}", typed, row->value));
    }
    if (auto taken = take(options, row->name, value, now); !taken)
      return taken.error().in(fmt::format("{} '{}'", typed, printable(value)));
  }
  if (options.folder.empty())
    return usage_error("name a folder: dtrain logs DIR, where DIR is the --log-dir of the run");
  return options;
}

}  // namespace dtrain::cli
