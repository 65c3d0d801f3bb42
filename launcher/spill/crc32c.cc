#include "launcher/spill/crc32c.h"

#include <boost/crc.hpp>
#include <cstring>

namespace dtrain::launcher {
namespace {

#if defined(__x86_64__)
#ifdef __clang__  // for which the instruction is no part of SSE 4.2
#define DTRAIN_SPILL_CRC_TARGET "crc32"
#else
#define DTRAIN_SPILL_CRC_TARGET "sse4.2"
#endif
__attribute__((target(DTRAIN_SPILL_CRC_TARGET))) std::uint32_t crc32c_by_instruction(std::uint32_t before,
                                                                                     const unsigned char* at,
                                                                                     std::size_t bytes) {
  std::uint64_t sum = ~before;
  for (; bytes >= sizeof sum; at += sizeof sum, bytes -= sizeof sum) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    sum = __builtin_ia32_crc32di(sum, word);
  }
  auto narrow = static_cast<std::uint32_t>(sum);
  for (; bytes != 0; ++at, --bytes) narrow = __builtin_ia32_crc32qi(narrow, *at);
  return ~narrow;
}
#undef DTRAIN_SPILL_CRC_TARGET
#endif

// Boost's remainder is the mirror image of what a reflected sum starts with.
constexpr std::uint32_t mirrored(std::uint32_t value) {
  std::uint32_t out = 0;
  for (int bit = 0; bit < 32; ++bit, value >>= 1) out = (out << 1) | (value & 1U);
  return out;
}

}  // namespace

std::uint32_t crc32c_by_table(std::uint32_t before, const void* data, std::size_t bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> sum(mirrored(~before));
  sum.process_bytes(data, bytes);
  return sum.checksum();
}

std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_by_instruction(before, static_cast<const unsigned char*>(data), bytes);
#endif
  return crc32c_by_table(before, data, bytes);
}

}  // namespace dtrain::launcher
