#pragma once
// Text as reports and events have it in JSON. Pure.
#include <nlohmann/json.hpp>
#include <string>

namespace dtrain::launcher {

// The text, or null where there is none.
inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
}

}  // namespace dtrain::launcher
