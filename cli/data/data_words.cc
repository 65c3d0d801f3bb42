// Tested by test/unit/cli/data/data_words_test.cc.
#include "cli/data/data_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_dataset.h"
#include "cli/parse/command_words.h"
#include "launcher/engine_wire/json_line.h"

namespace dtrain::cli {
namespace {

using WordsJson = nlohmann::ordered_json;
using FlagValues = std::map<std::string, std::string>;

constexpr std::size_t kFewestDigits = 4;  // of a key: fewer, or none, are no choice
constexpr int kMostThreads = 4096;
constexpr int kMostWait = 7 * 24 * 3600;
constexpr int kMostAge = 100'000'000;

std::string value_of_flag(const FlagValues& flags, const char* name) {
  const auto found = flags.find(name);
  return found == flags.end() ? "" : found->second;
}

Result<DataAsked> asked_of(const FlagValues& flags, const WordsJson& request) {
  auto folder = cache_place(value_of_flag(flags, "cache-dir"));
  if (!folder) return folder.error().in("--cache-dir");
  if (!launcher::is_utf8(*folder))
    return usage_error(fmt::format("--cache-dir '{}': the name is not UTF-8; name another folder", printable(*folder)));
  return DataAsked{value_of_flag(flags, "config"), std::move(*folder), request.dump()};
}

// A whole number of a flag, into the request.
Result<void> take_number(const FlagValues& flags, const char* flag, int most, const char* key, WordsJson& request) {
  if (!flags.contains(flag)) return {};
  const auto number = parse_number(value_of_flag(flags, flag), 1, most);
  if (!number) return number.error().in(fmt::format("--{} '{}'", flag, printable(value_of_flag(flags, flag))));
  request[key] = *number;
  return {};
}

Result<void> take_limits(const FlagValues& flags, WordsJson& request) {
  if (flags.contains("ttl")) {
    const auto age = parse_age(value_of_flag(flags, "ttl"));
    if (!age) return age.error().in("--ttl");
    request["ttl_s"] = age->count();
  }
  if (flags.contains("max-size")) {
    const auto size = parse_size(value_of_flag(flags, "max-size"));
    if (!size) return size.error().in("--max-size");
    request["max_bytes"] = *size;
  }
  return {};
}

}  // namespace

Result<DataAsked> parse_preprocess(const std::vector<std::string>& words) {
  const auto flags = command_words(CommandId::preprocess, words, Unknown::repeated);
  if (!flags) return flags.error();
  WordsJson request = {{"json", flags->contains("json")}};
  if (auto done = take_number(*flags, "threads", kMostThreads, "threads", request); !done) return done.error();
  if (auto done = take_number(*flags, "wait", kMostWait, "wait_s", request); !done) return done.error();
  return asked_of(*flags, request);
}

Result<DataAsked> parse_cache(const std::vector<std::string>& words) {
  std::vector<std::string> rest = words;
  std::vector<std::string> keys = take_plain_words(*find_command("cache"), rest);
  const auto flags = command_words(CommandId::cache, rest, Unknown::repeated);
  if (!flags) return flags.error();
  constexpr std::string_view kDo = "ls,verify,gc,rm";
  if (keys.empty())
    return usage_error("say what to do: dtrain cache ls, dtrain cache verify, dtrain cache gc, or dtrain cache rm KEY");
  const std::string what = keys[0];
  if (auto fine = one_of(what, split(kDo, ',')); !fine) return fine.error().in("dtrain cache");
  keys.erase(keys.begin());
  if (what == "rm" && keys.empty()) return usage_error("name the entries: dtrain cache rm KEY...");
  if (what != "rm" && what != "verify" && !keys.empty())
    return usage_error(fmt::format("dtrain cache {} takes no keys ({})", what, printable(keys[0])));
  for (const std::string& key : keys)
    if (key.size() < kFewestDigits)
      return usage_error(
          fmt::format("'{}' is too short for a key: give {} digits or more", printable(key), kFewestDigits));
  for (const auto& [flag, of] : {std::pair("json", "ls"), std::pair("ttl", "gc"), std::pair("max-size", "gc")})
    if (flags->contains(flag) && what != of) return usage_error(fmt::format("dtrain cache {} has no --{}", what, flag));
  WordsJson request = {{"do", what}, {"keys", keys}, {"json", flags->contains("json")}};
  if (auto done = take_limits(*flags, request); !done) return done.error();
  return asked_of(*flags, request);
}

void take_launcher(const std::string& dtrain, const std::string& engine, const std::vector<std::string>& nodes,
                   DataAsked& asked) {
  WordsJson request = WordsJson::parse(asked.request);
  request["dtrain"] = dtrain;
  if (!engine.empty()) request["engine"] = engine;
  if (!nodes.empty()) request["nodes"] = nodes;
  asked.request = request.dump(-1, ' ', false, WordsJson::error_handler_t::replace);
}

std::string whole_request(const DataAsked& asked, const std::optional<std::string>& said,
                          const std::string& credentials) {
  WordsJson request = said ? WordsJson::parse(*said) : WordsJson::object();
  request.update(WordsJson::parse(asked.request.empty() ? "{}" : asked.request));
  if (!asked.cache_dir.empty()) {
    request["cache_dir"] = asked.cache_dir;
    if (request.contains("lines")) request["lines"].erase("backend.cache_dir");  // the config has not said it
  }
  if (!credentials.empty()) request["credentials"] = WordsJson::parse(credentials);
  return request.dump(-1, ' ', false, WordsJson::error_handler_t::replace);
}

std::string dataset_request(bool quiet) { return WordsJson{{"json", true}, {"quiet", quiet}}.dump(); }

std::string rows_request(const RawInput& input, const std::string& recipe, const std::string& files,
                         const std::string& said, bool quiet) {
  WordsJson request = {{"json", true},     {"quiet", quiet},         {"recipe", recipe},
                       {"input", {files}}, {"filter", input.filter}, {"without", input.without}};
  if (!input.keep.empty()) request["keep"] = input.keep;
  const auto config = WordsJson::parse(said, nullptr, /*allow_exceptions=*/false);
  if (config.is_object() && config.contains("cache_dir")) request["cache_dir"] = config["cache_dir"];
  if (config.is_object() && config.contains("limits")) request.update(config["limits"]);
  return request.dump(-1, ' ', false, WordsJson::error_handler_t::replace);
}

std::string with_nodes(const std::string& request) {
  WordsJson json = WordsJson::parse(request);
  json["asks_nodes"] = true;
  return json.dump(-1, ' ', false, WordsJson::error_handler_t::replace);
}

bool has_dataset(const std::string& request) { return WordsJson::parse(request).contains("dataset"); }

Result<std::chrono::seconds> parse_age(const std::string& text) {
  constexpr std::string_view kUnits = "smhd";
  constexpr int kSeconds[] = {1, 60, 3600, 86400};
  const std::size_t unit = text.empty() ? kUnits.npos : kUnits.find(text.back());
  const auto number = parse_number(text.substr(0, text.empty() ? 0 : text.size() - 1), 0, kMostAge);
  if (unit == kUnits.npos || !number) return usage_error("expected an age such as 30d, 12h, 90m or 45s");
  return std::chrono::seconds(std::int64_t{*number} * kSeconds[unit]);
}

}  // namespace dtrain::cli
