#pragma once
// The job's name as it stands in names of the files that have its state (launcher/spill), and in their first lines:
// characters that could hurt there are written as %2F. Pure. Tested by
// test/unit/launcher/spill/state_file_wire_test.cc.
#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::launcher {

// Longer ones make the name of a file too long.
inline constexpr std::size_t kLongestStateJob = 200;

inline std::string state_job_name(const std::string& job) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' || c == '_' ||
           c == '.';
  };
  std::string name;
  for (const char c : job) name += plain(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return name;
}

// Nothing: state_job_name() has not made it.
inline std::optional<std::string> parse_state_job_name(std::string_view name) {
  const auto digit = [&](std::size_t at) {
    const std::size_t value = at < name.size() ? std::string_view("0123456789ABCDEF").find(name[at]) : name.npos;
    return value == name.npos ? std::nullopt : std::optional(static_cast<int>(value));
  };
  std::string job;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      job += name[i];
      continue;
    }
    const auto high = digit(i + 1), low = digit(i + 2);
    if (!high || !low) return std::nullopt;
    job += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return job;
}

}  // namespace dtrain::launcher
