#pragma once
// An environment that a test makes up.
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "dtrain/worker_env.h"

namespace dtrain::test {

using Variables = std::map<std::string, std::string>;

inline EnvLookup lookup_in(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace dtrain::test
