#pragma once
// An address and a port as people and flags write them. Pure.
#include <cstdint>
#include <string>
#include <string_view>

namespace dtrain {

// "10.0.0.1:29400", "[fd00::1]:29400"
inline std::string address_text(std::string_view address, std::string_view port) {
  const bool brackets = address.find(':') != std::string_view::npos;
  std::string text(brackets ? "[" : "");
  text.append(address).append(brackets ? "]:" : ":").append(port);
  return text;
}

inline std::string address_text(std::string_view address, std::uint16_t port) {
  return address_text(address, std::to_string(port));
}

}  // namespace dtrain
