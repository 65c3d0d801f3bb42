#pragma once
// CRC-32C (Castagnoli), as in iSCSI: RFC 3720, appendix B.4. The sums of parts give the sum of the whole. Pure.
#include <cstddef>
#include <cstdint>

namespace dtrain::checkpoint {

// The sum of the bytes that gave `before`, followed by these. 0 is the sum of no bytes.
std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes);

// The same of bytes that are copied on the way, in one pass where the CPU can. They go past the CPU's caches: for a
// large whole that is not read soon. The ranges do not overlap.
std::uint32_t crc32c_copied(std::uint32_t before, void* to, const void* from, std::size_t bytes);

// The same by tables alone, for CPUs without instructions for it. For tests.
std::uint32_t crc32c_by_table(std::uint32_t before, const void* data, std::size_t bytes);

// The sum of a text that consists of two, of their sums and the length of the second.
std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

}  // namespace dtrain::checkpoint
