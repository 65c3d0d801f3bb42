#pragma once
// A whole number in JSON. Pure.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

namespace dtrain::data {

// Nothing: it is not there, or null.
inline std::optional<std::int64_t> number_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<std::int64_t>();
}

}  // namespace dtrain::data
