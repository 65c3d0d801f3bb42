#pragma once
// What this host calls itself.
#include <unistd.h>

#include <array>
#include <string>

namespace dtrain::data {

// `otherwise`: where the kernel does not say it.
inline std::string host_name(const char* otherwise) {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : otherwise;
}

}  // namespace dtrain::data
