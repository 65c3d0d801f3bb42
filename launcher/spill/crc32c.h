#pragma once
// CRC-32C (Castagnoli; RFC 3720, appendix B.4). Pure.
#include <cstddef>
#include <cstdint>

namespace dtrain::launcher {

// Of these bytes, which follow bytes that have the sum `before` (0: none).
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);
// The same without the CPU's own instruction.
std::uint32_t crc32c_by_table(std::uint32_t before, const void* data, std::size_t bytes);

}  // namespace dtrain::launcher
