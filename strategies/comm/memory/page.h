#pragma once
// The unit in which memory is laid out, given back and copied.
#include <cstddef>

namespace dtrain {

inline constexpr std::size_t kPage = 4096;

}  // namespace dtrain
