#include "cli/flight/flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "cli/base/fail.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/flight/flight_reading.h"
#include "cli/flight/flight_story.h"
#include "cli/flight/flight_text.h"
#include "cli/table/command_table.h"
#include "launcher/base/small_file.h"
#include "launcher/job/exit_codes.h"
#include "launcher/logs/log_finder.h"

namespace dtrain::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kStuck = 1;

struct Asked {
  std::vector<std::string> paths;
  bool json = false;
};

Result<Asked> parse(const std::vector<std::string>& words) {
  Asked asked;
  for (const std::string& word : words) {
    if (word == "--json")
      asked.json = true;
    else if (word.starts_with('-'))
      return unknown_flag(*find_command("flight"), word);
    else
      asked.paths.push_back(word);
  }
  if (asked.paths.empty())
    return usage_error(
        "name the files: dtrain flight DIR, where DIR is the folder that the error message names, or the --log-dir of "
        "the run");
  return asked;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with("flight_rank") && name.ends_with(".json")) paths.push_back(it->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

// A folder's files, or those of the last round that has some in the newest job's logs.
Result<std::vector<std::string>> files_at(const std::string& path) {
  std::vector<std::string> files = files_in(path);
  auto logs = launcher::find_logs(path);
  if (logs)
    for (auto attempt = logs->attempts.rbegin(); files.empty() && attempt != logs->attempts.rend(); ++attempt)
      files = files_in(attempt->path);
  if (!files.empty()) return files;
  return usage_error(
      fmt::format("{} has no flight_rank*.json: no collective timed out or met a call that did not fit, and no signal "
                  "asked for files",
                  printable(path, 400)));
}

// A link that the user names is followed. One that lies in his folder may be laid by somebody else.
Result<FlightReading> read(const std::string& path, bool named) {
  auto text =
      named ? launcher::read_regular_file(path, kFlightFileBytes) : launcher::read_found_file(path, kFlightFileBytes);
  if (!text) return usage_error(fmt::format("{} cannot be read: {}", printable(path, 400), text.error().message));
  if (text->size() > kFlightFileBytes)
    return usage_error(fmt::format("{} is not a file of the flight recorder: it is too large", printable(path, 400)));
  return read_flight(*text, path);
}

}  // namespace

int flight_command(const std::vector<std::string>& words) {
  auto asked = parse(words);
  if (!asked) return fail(asked.error());
  std::vector<FlightReading> readings;
  int wrong = 0;
  for (const std::string& path : asked->paths) {
    std::error_code error;
    const bool named = !fs::is_directory(path, error);
    auto files = named ? std::vector{path} : files_at(path);
    if (!files) wrong = fail(files.error());
    if (!files) continue;
    for (const std::string& file : *files) {
      auto reading = read(file, named);
      if (reading)
        readings.push_back(std::move(*reading));
      else
        wrong = fail(reading.error());
    }
  }
  if (readings.empty()) return wrong;
  auto story = flight_story(std::move(readings));
  if (!story) return fail(story.error());
  const std::string text = asked->json ? flight_json(*story) : flight_text(*story);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    return fail(system_error("standard output", errno));
  if (wrong != 0) return wrong;
  return story->stuck() ? kStuck : 0;
}

}  // namespace dtrain::cli
