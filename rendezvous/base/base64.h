#pragma once
// Base64 with padding, RFC 4648's first alphabet. Pure.
#include <optional>
#include <string>
#include <string_view>

namespace dtrain {

std::string base64(std::string_view bytes);
// Nothing if it is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace dtrain
