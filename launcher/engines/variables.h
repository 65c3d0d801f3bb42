#pragma once
// Variables of the environment, and the numbers in them. Pure.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::launcher {

using Variables = std::map<std::string, std::string>;

// Empty if it is not there.
std::string variable(const Variables& env, const char* name);
// Decimal digits and nothing else; nothing for another text.
std::optional<std::uint32_t> number(std::string_view text);
std::optional<std::uint32_t> number(const Variables& env, const char* name);

}  // namespace dtrain::launcher
