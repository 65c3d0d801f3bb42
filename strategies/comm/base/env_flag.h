#pragma once
// A variable that is 1 or 0.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "dtrain/worker_env.h"

namespace dtrain {

// None where it is unset or empty. `choice` is for the error: which of the two is the default. Throws ConfigError.
inline std::optional<bool> env_flag(const EnvLookup& env, const char* name, const char* choice) {
  const std::string text = env(name).value_or("");
  if (text.empty()) return std::nullopt;
  if (text == "1" || text == "0") return text == "1";
  throw ConfigError(fmt::format("dtrain: {} is '{}'; it must be {}", name, text, choice));
}

}  // namespace dtrain
