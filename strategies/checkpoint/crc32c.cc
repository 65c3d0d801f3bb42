// See crc32c.h. A sum is a polynomial over GF(2): bit 31 is the coefficient of x^0, bit 0 that of x^31.
#include "strategies/checkpoint/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dtrain::checkpoint {
namespace {

constexpr std::uint32_t kCastagnoli = 0x82F63B78U;
constexpr std::uint32_t kOne = 0x80000000U;        // x^0
constexpr std::uint32_t kByteShift = 0x00800000U;  // x^8
constexpr std::size_t kLane = 4096;                // bytes of one of the three sums that are made at a time

constexpr std::uint32_t times_x(std::uint32_t a) { return (a >> 1) ^ ((a & 1U) != 0 ? kCastagnoli : 0U); }

constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t sum = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1, b = times_x(b))
    if ((a & bit) != 0) sum ^= b;
  return sum;
}

// What a sum is multiplied with where so many bytes follow it.
constexpr std::uint32_t shift_over(std::uint64_t bytes) {
  std::uint32_t shift = kOne;
  for (std::uint32_t power = kByteShift; bytes != 0; bytes >>= 1, power = product(power, power))
    if ((bytes & 1U) != 0) shift = product(shift, power);
  return shift;
}

using SumTables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table k: the sum of one byte and k zero bytes behind it.
constexpr SumTables make_sum_tables() {
  SumTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = times_x(sum);
    tables[0][byte] = sum;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xFFU];
  return tables;
}

constexpr SumTables kSumTables = make_sum_tables();

// The sum without the inversions at both ends.
std::uint32_t raw_by_table(std::uint32_t sum, const unsigned char* at, std::size_t bytes) {
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::array<unsigned char, 8> eight{};
    std::memcpy(eight.data(), at, eight.size());
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 4; ++i)
      next ^= kSumTables[7 - i][(eight[i] ^ (sum >> (8 * i))) & 0xFFU] ^ kSumTables[3 - i][eight[4 + i]];
    sum = next;
  }
  for (; bytes != 0; ++at, --bytes) sum = (sum >> 8) ^ kSumTables[0][(sum ^ *at) & 0xFFU];
  return sum;
}

#if defined(__x86_64__)
#ifdef __clang__  // for which the instruction is no part of SSE 4.2
#define DTRAIN_CRC32_TARGET "crc32"
#else
#define DTRAIN_CRC32_TARGET "sse4.2"
#endif
std::uint64_t eight_bytes(const unsigned char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// The instruction takes three cycles and one can start in each: so three sums are made at a time, and joined.
__attribute__((target(DTRAIN_CRC32_TARGET))) std::uint32_t raw_by_instruction(std::uint32_t sum,
                                                                              const unsigned char* at,
                                                                              std::size_t bytes) {
  static constexpr std::uint32_t kOverLane = shift_over(kLane);
  for (; bytes >= 3 * kLane; at += 3 * kLane, bytes -= 3 * kLane) {
    std::uint64_t first = sum, second = 0, third = 0;
    for (std::size_t i = 0; i < kLane; i += 8) {
      first = __builtin_ia32_crc32di(first, eight_bytes(at + i));
      second = __builtin_ia32_crc32di(second, eight_bytes(at + kLane + i));
      third = __builtin_ia32_crc32di(third, eight_bytes(at + 2 * kLane + i));
    }
    sum = product(kOverLane, static_cast<std::uint32_t>(first)) ^ static_cast<std::uint32_t>(second);
    sum = product(kOverLane, sum) ^ static_cast<std::uint32_t>(third);
  }
  std::uint64_t wide = sum;
  for (; bytes >= 8; at += 8, bytes -= 8) wide = __builtin_ia32_crc32di(wide, eight_bytes(at));
  sum = static_cast<std::uint32_t>(wide);
  for (; bytes != 0; ++at, --bytes) sum = __builtin_ia32_crc32qi(sum, *at);
  return sum;
}

// Bytes and a sum before them are as good as fewer bytes: what is multiplied with x^2048 may be added 256 bytes later.
// Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009. Each half of 16
// bytes has its own power of x; the product of two reflected numbers is one place too low.
constexpr std::size_t kFolded = 256;
constexpr std::uint64_t kFoldLow = std::uint64_t{shift_over(kFolded + 4)} << 1;
constexpr std::uint64_t kFoldHigh = std::uint64_t{shift_over(kFolded - 4)} << 1;

// At least 256 bytes. Copies, if there is a `to`, which is aligned to 32 bytes: as many as it returns.
template <bool kCopies>
__attribute__((target("avx2,vpclmulqdq"))) std::size_t fold(std::uint32_t& sum, unsigned char* to,
                                                            const unsigned char* at, std::size_t bytes) {
  const __m256i powers = _mm256_set_epi64x(kFoldHigh, kFoldLow, kFoldHigh, kFoldLow);
  __m256i kept[kFolded / sizeof(__m256i)];  // in registers
  const std::size_t whole = bytes / kFolded * kFolded;
  for (std::size_t done = 0; done < whole; done += kFolded) {
    for (std::size_t i = 0; i < std::size(kept); ++i) {
      const std::size_t place = done + i * sizeof(__m256i);
      __m256i next = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + place));
      if constexpr (kCopies) _mm256_stream_si256(reinterpret_cast<__m256i*>(to + place), next);
      if (done != 0) {
        const __m256i low = _mm256_clmulepi64_epi128(kept[i], powers, 0x00);
        const __m256i high = _mm256_clmulepi64_epi128(kept[i], powers, 0x11);
        next = _mm256_xor_si256(_mm256_xor_si256(low, high), next);
      } else if (i == 0) {
        next = _mm256_xor_si256(next, _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, static_cast<int>(sum)));
      }
      kept[i] = next;
    }
  }
  if constexpr (kCopies) _mm_sfence();
  unsigned char left[kFolded];
  std::memcpy(left, kept, sizeof left);
  sum = raw_by_instruction(0, left, sizeof left);
  return whole;
}

std::uint32_t raw_by_folding(std::uint32_t sum, const unsigned char* at, std::size_t bytes) {
  const std::size_t folded = bytes < 2 * kFolded ? 0 : fold<false>(sum, nullptr, at, bytes);
  return raw_by_instruction(sum, at + folded, bytes - folded);
}

std::uint32_t raw_copied_by_folding(std::uint32_t sum, unsigned char* to, const unsigned char* from,
                                    std::size_t bytes) {
  constexpr std::size_t kAligned = sizeof(__m256i);
  const std::size_t head = std::min(bytes, (kAligned - reinterpret_cast<std::uintptr_t>(to) % kAligned) % kAligned);
  std::memcpy(to, from, head);
  sum = raw_by_instruction(sum, from, head);
  std::size_t done = head;
  if (bytes - head >= kFolded) done += fold<true>(sum, to + head, from + head, bytes - head);
  std::memcpy(to + done, from + done, bytes - done);
  return raw_by_instruction(sum, from + done, bytes - done);
}

bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}

bool has_products() {
  static const bool has =
      has_instruction() && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
  return has;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::uint32_t before, const void* data, std::size_t bytes) {
  return ~raw_by_table(~before, static_cast<const unsigned char*>(data), bytes);
}

std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes) {
#if defined(__x86_64__)
  const auto* at = static_cast<const unsigned char*>(data);
  if (has_products()) return ~raw_by_folding(~before, at, bytes);
  if (has_instruction()) return ~raw_by_instruction(~before, at, bytes);
#endif
  return crc32c_by_table(before, data, bytes);
}

std::uint32_t crc32c_copied(std::uint32_t before, void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
  if (has_products())
    return ~raw_copied_by_folding(~before, static_cast<unsigned char*>(to), static_cast<const unsigned char*>(from),
                                  bytes);
#endif
  if (bytes != 0) std::memcpy(to, from, bytes);
  return crc32c(before, to, bytes);
}

std::uint32_t crc32c_joined(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  return product(shift_over(second_bytes), first) ^ second;
}

}  // namespace dtrain::checkpoint
