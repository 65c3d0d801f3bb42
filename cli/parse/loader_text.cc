// Tested by test/unit/cli/parse/loader_text_test.cc.
#include "cli/parse/loader_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/base/usage_error.h"
#include "rendezvous/base/printable.h"

namespace dtrain::cli {
namespace {

// Keys in the order of the alphabet.
using LoaderJson = nlohmann::json;

bool is_window(const LoaderJson& value) {
  if (value.is_null() || value == "auto") return true;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return value.is_number_unsigned() && value.get<std::uint64_t>() > 0 && value.get<std::uint64_t>() <= kMost;
}

Result<void> check_key(std::string_view name, const LoaderJson& value) {
  if (name == "window_size_bytes") {
    if (is_window(value)) return {};
    return usage_error("expected a number of bytes from 1, null or auto");
  }
  if (name == "fully_executed") {
    if (value.is_boolean()) return {};
    return usage_error("expected true or false");
  }
  return usage_error("unknown key; the keys are window_size_bytes and fully_executed");
}

}  // namespace

Result<std::string> loader_text(std::string_view text) {
  std::set<std::string> seen;
  std::string twice;
  const auto each = [&](int depth, LoaderJson::parse_event_t event, LoaderJson& value) {
    if (depth == 1 && event == LoaderJson::parse_event_t::key && !seen.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  const auto json = LoaderJson::parse(text, each, /*allow_exceptions=*/false);
  if (!json.is_object())
    return usage_error(R"(expected a JSON object, such as {"window_size_bytes": 500000000, "fully_executed": false})");
  if (!twice.empty()) return usage_error(fmt::format("{} is there twice", printable(twice)));
  for (const auto& [name, value] : json.items())
    if (auto fine = check_key(name, value); !fine) return fine.error().in(printable(name));
  return json.dump();
}

Result<void> check_loader_key(std::string_view name, std::string_view text) {
  return check_key(name, LoaderJson::parse(text, nullptr, /*allow_exceptions=*/false));
}

}  // namespace dtrain::cli
