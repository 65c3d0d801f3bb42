#include "rendezvous/credentials/join_code.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "rendezvous/crypto/openssl.h"

namespace dtrain {
namespace {

constexpr std::string_view kCodeLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";  // Crockford's: no I, L, O, U
constexpr std::size_t kRandom = 17;                                            // of five bits each
constexpr std::size_t kAll = kRandom + 3;
constexpr std::size_t kGroup = 5;
constexpr int kRounds = 1 << 20;
constexpr std::string_view kCodeSalt = "dtrain join code 1";

using Symbols = Wiped<kAll>;

Error mistyped(const std::string& why) { return {ErrorKind::usage, "not a join code: " + why}; }

// CRC-15 of CAN: no wrong letter and no two neighbours that have changed places go unseen.
std::uint16_t symbols_checksum(const Symbols& symbols) {
  unsigned crc = 0;
  for (std::size_t i = 0; i < kRandom; ++i) {
    for (int bit = 4; bit >= 0; --bit) {
      const unsigned next = (symbols[i] >> bit & 1U) ^ (crc >> 14 & 1U);
      crc = (crc << 1 & 0x7fff) ^ (next != 0 ? 0x4599U : 0U);
    }
  }
  return static_cast<std::uint16_t>(crc);
}

std::uint8_t check_symbol(std::uint16_t crc, std::size_t i) {
  return static_cast<std::uint8_t>(crc >> (10 - 5 * i) & 31);
}

// Its value; nothing: it is none.
std::size_t value_of(char c) {
  if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  if (c == 'O') c = '0';
  if (c == 'I' || c == 'L') c = '1';
  return kCodeLetters.find(c);
}

Result<Symbols> symbols_of(std::string_view code) {
  Symbols symbols;
  std::size_t have = 0;
  for (const char c : code) {
    if (c == '-' || c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    const std::size_t value = value_of(c);
    if (value == std::string_view::npos) return mistyped(fmt::format("codes do not contain its letter {}", have + 1));
    if (have < kAll) symbols[have] = static_cast<std::uint8_t>(value);
    ++have;
  }
  if (have != kAll) return mistyped(fmt::format("it has {} letters and digits instead of {}", have, kAll));
  const std::uint16_t crc = symbols_checksum(symbols);
  for (std::size_t i = 0; i < kAll - kRandom; ++i)
    if (symbols[kRandom + i] != check_symbol(crc, i)) return mistyped("a letter is wrong, or two have changed places");
  return symbols;
}

}  // namespace

Result<std::string> make_join_code() {
  Symbols symbols;
  // Of so few bytes the kernel never gives a part.
  if (::getrandom(symbols.data(), symbols.size(), 0) != static_cast<ssize_t>(symbols.size()))
    return system_error("no random numbers for a join code", errno);
  for (std::uint8_t& symbol : symbols) symbol &= 31;
  const std::uint16_t crc = symbols_checksum(symbols);
  for (std::size_t i = 0; i < kAll - kRandom; ++i) symbols[kRandom + i] = check_symbol(crc, i);
  std::string code;
  code.reserve(kAll + kAll / kGroup);
  for (std::size_t i = 0; i < kAll; ++i) {
    if (i != 0 && i % kGroup == 0) code += '-';
    code += kCodeLetters[symbols[i]];
  }
  return code;
}

Result<JobSecret> secret_of_join_code(std::string_view code) {
  const auto symbols = symbols_of(code);
  if (!symbols) return symbols.error();
  const auto ssl = openssl();
  if (!ssl) return ssl.error();
  std::array<char, kRandom> letters{};
  for (std::size_t i = 0; i < kRandom; ++i) letters[i] = kCodeLetters[(*symbols)[i]];
  Wiped<kSecretBytes> bytes;
  const int done = (*ssl)->PKCS5_PBKDF2_HMAC(
      letters.data(), static_cast<int>(letters.size()), reinterpret_cast<const unsigned char*>(kCodeSalt.data()),
      static_cast<int>(kCodeSalt.size()), kRounds, (*ssl)->EVP_sha256(), static_cast<int>(bytes.size()), bytes.data());
  wipe(letters.data(), letters.size());
  if (done != 1) return Error{ErrorKind::system, "OpenSSL cannot compute PBKDF2"};
  return JobSecret::of(bytes);
}

}  // namespace dtrain
