#pragma once
// What keys of `backend.processor` may say. Pure.
#include <cstdint>

namespace dtrain::data {

constexpr std::int64_t kLeastMemory = std::int64_t{64} << 20;  // of memory_limit_bytes

}  // namespace dtrain::data
