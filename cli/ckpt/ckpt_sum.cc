#include "cli/ckpt/ckpt_sum.h"

#include <array>
#include <cstring>

namespace dtrain::cli {
namespace {

constexpr std::array<std::uint32_t, 256> byte_sums() {
  std::array<std::uint32_t, 256> sums{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1U) != 0 ? 0x82F63B78U : 0U);
    sums[byte] = sum;
  }
  return sums;
}

std::uint32_t by_table(std::uint32_t sum, std::string_view bytes) {
  static constexpr auto kByteSums = byte_sums();
  for (const char c : bytes) sum = (sum >> 8) ^ kByteSums[(sum ^ static_cast<unsigned char>(c)) & 0xFFU];
  return sum;
}

#if defined(__x86_64__)
#ifdef __clang__  // for which the instruction is no part of SSE 4.2
#define DTRAIN_CRC32_TARGET "crc32"
#else
#define DTRAIN_CRC32_TARGET "sse4.2"
#endif
__attribute__((target(DTRAIN_CRC32_TARGET))) std::uint32_t by_instruction(std::uint32_t sum, std::string_view bytes) {
  std::uint64_t wide = sum;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  return by_table(static_cast<std::uint32_t>(wide), bytes);
}
#endif

}  // namespace

std::uint32_t ckpt_sum(std::uint32_t before, std::string_view bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~by_instruction(~before, bytes);
#endif
  return ~by_table(~before, bytes);
}

}  // namespace dtrain::cli
