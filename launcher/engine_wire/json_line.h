#pragma once
// Lines of JSON that programs of an engine say to each other. Pure.
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/engine_wire/agent_wire.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

using Json = nlohmann::json;

// Bytes that are not UTF-8 are replaced: for texts that people read.
inline std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

inline bool is_utf8(const std::string& text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

// An object, or nothing.
inline std::optional<Json> json_object(std::string_view text) {
  if (text.size() > kLongestAgentLine) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

// What an agent says begins with this, on its line.
inline constexpr std::string_view kAgentMark = "dtrain-agent ";
inline std::string agent_line(const Json& json) { return std::string(kAgentMark) + one_line(json); }
// Nothing: an agent has not said this.
inline std::optional<Json> agent_json(std::string_view line) {
  const auto mark = line.find(kAgentMark);
  return mark == std::string_view::npos ? std::nullopt : json_object(line.substr(mark + kAgentMark.size()));
}

// The member of this type; nothing if it is not there, or is of another type.
template <class T>
std::optional<T> typed_member(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  try {
    return found->get<T>();
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

inline std::string text_member(const Json& json, const char* name) {
  return typed_member<std::string>(json, name).value_or("");
}

inline constexpr std::array kErrorKinds = {
    std::pair{ErrorKind::usage, "usage"}, std::pair{ErrorKind::not_found, "not-found"},
    std::pair{ErrorKind::not_executable, "not-executable"}, std::pair{ErrorKind::unavailable, "unavailable"},
    std::pair{ErrorKind::system, "system"}};

inline Json error_json(const Error& error) {
  std::string kind;
  for (const auto& [each, name] : kErrorKinds)
    if (each == error.kind) kind = name;
  return {{"error", error.message}, {"kind", kind}};
}

// Nothing: it says of none.
inline std::optional<Error> error_of(const Json& json) {
  const auto message = typed_member<std::string>(json, "error");
  if (!message) return std::nullopt;
  Error error{ErrorKind::system, *message};
  const std::string said = text_member(json, "kind");
  for (const auto& [each, name] : kErrorKinds)
    if (said == name) error.kind = each;
  return error;
}

}  // namespace dtrain::launcher
