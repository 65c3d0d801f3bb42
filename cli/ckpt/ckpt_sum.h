#pragma once
// CRC-32C (Castagnoli): RFC 3720, appendix B.4. Pure.
#include <cstdint>
#include <string_view>

namespace dtrain::cli {

// The sum of the bytes that gave `before`, followed by these. 0 is the sum of no bytes.
std::uint32_t ckpt_sum(std::uint32_t before, std::string_view bytes);

}  // namespace dtrain::cli
