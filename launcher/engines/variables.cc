// Tested by test/unit/launcher/engines/slurm_plan_test.cc.
#include "launcher/engines/variables.h"

#include <charconv>

namespace dtrain::launcher {

std::string variable(const Variables& env, const char* name) {
  const auto found = env.find(name);
  return found == env.end() ? "" : found->second;
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::optional<std::uint32_t> number(const Variables& env, const char* name) { return number(variable(env, name)); }

}  // namespace dtrain::launcher
