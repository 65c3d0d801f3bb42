// Which format a config has; see include/dtrain/training_config.h.
#include <fmt/format.h>

#include "dtrain/training_config.h"
#include "strategies/config/formats.h"
#include "strategies/config/why_refused.h"

namespace dtrain {
namespace {

// A file's name, where its text should be.
bool names_file(const std::string& text) { return text.ends_with(".json") || text.ends_with(".yaml"); }

}  // namespace

Config parse_config(const std::string& text, const JobSize& job) {
  using namespace config;
  if (text.find_first_of("{\"[") == std::string::npos) {
    if (names_file(text)) {
      refuse(
          fmt::format("'{}' names a file; `dtrain run --strategy` reads files of JSON, and DTRAIN_STRATEGY has their "
                      "text: DTRAIN_STRATEGY=\"$(cat ds_config.json)\"",
                      text.substr(0, 200)));
    }
    return {read_own(Json(text), text), {}};
  }
  const std::optional<Json> json = json_of(text);
  if (!json) {
    refuse(fmt::format("'{}' is no JSON, has a name twice, or is nested too deep; correct it", text.substr(0, 200)));
  }
  if (!json->is_object()) return {read_own(*json, text), {}};
  JsonReader reader(*json, "");
  if (is_ludwig(*json)) return read_ludwig(reader, job);
  if (is_accelerate(*json)) return read_accelerate(reader, job);
  if (is_deepspeed(*json)) return read_deepspeed(reader, job);
  return {read_own(*json, text), {}};
}

std::optional<std::string> config::why_refused(const std::string& text, const JobSize& job) {
  constexpr std::string_view kBegin = "dtrain: strategy";
  try {
    parse_config(text, job);
    return std::nullopt;
  } catch (const ConfigError& error) {
    std::string what = error.what();
    if (what.starts_with(kBegin)) what.erase(0, kBegin.size());
    return what.starts_with(": ") ? what.substr(2) : "it" + what;
  }
}

Strategy parse_strategy(const std::string& text) { return parse_config(text, {}).strategy; }

}  // namespace dtrain
