#include "rendezvous/credentials/job_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/credentials/private_file.h"

namespace dtrain {
namespace {

constexpr std::string_view kPrefix = "dtrain-";
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kSalt = "dtrain1";
constexpr std::size_t kRawBytes = kSecretBytes + 4;      // with the checksum
constexpr std::size_t kTextLetters = kRawBytes / 3 * 4;  // after the prefix
constexpr std::size_t kFileBytes = 4096;                 // of a file that has a token in it

using Raw = Wiped<kRawBytes>;

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// CRC-32 (IEEE), bit by bit: it is run on 32 bytes.
std::uint32_t checksum(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xffffffff;
  for (std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
  }
  return ~crc;
}

bool checksum_matches(const Raw& raw) {
  const std::uint32_t crc = checksum(std::span(raw).first<kSecretBytes>());
  for (std::size_t i = 0; i < 4; ++i)
    if (raw[kSecretBytes + i] != static_cast<std::uint8_t>(crc >> (8 * i))) return false;
  return true;
}

Error not_a_token(const std::string& why) {
  return {ErrorKind::usage, "not a dtrain token: " + why + "; `dtrain token --new` makes one"};
}

// Where a file's bytes are for a moment.
struct WipedText {
  std::string text;
  ~WipedText() { wipe(text.data(), text.size()); }
};

Result<void> read_all(int fd, std::string& text) {
  text.resize(kFileBytes + 1);  // at once: a string that grows leaves copies behind
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot be read", errno);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  if (size > kFileBytes) return not_a_token("the file is too long");
  text.resize(size);
  return {};
}

}  // namespace

Result<JobSecret> JobSecret::generate() {
  Wiped<kSecretBytes> bytes;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (n < 0 && errno != EINTR) return system_error("no random numbers for a token", errno);
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return of(bytes);
}

Result<JobSecret> JobSecret::of(SecretSpan bytes) {
  auto memory = SecretMemory::copy_of(bytes);
  if (!memory) return memory.error();
  return JobSecret(*memory);
}

Result<JobSecret> JobSecret::parse(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  if (text.empty()) return not_a_token("it is empty");
  if (!text.starts_with(kPrefix)) return not_a_token("it does not begin with dtrain-");
  text.remove_prefix(kPrefix.size());
  if (text.size() != kTextLetters)
    return not_a_token(
        fmt::format("it has {} characters instead of {}", text.size() + kPrefix.size(), kTextLetters + kPrefix.size()));
  Raw raw;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t value = kLetters.find(text[i + k]);
      if (value == std::string_view::npos)
        return not_a_token(fmt::format("its character {} is not a letter, digit, - or _", i + k + kPrefix.size() + 1));
      group = group << 6 | static_cast<std::uint32_t>(value);
    }
    for (std::size_t k = 0; k < 3; ++k) raw[i / 4 * 3 + k] = static_cast<std::uint8_t>(group >> (16 - 8 * k));
  }
  if (!checksum_matches(raw)) return not_a_token("its checksum does not match, so a character is wrong");
  return of(std::span(raw).first<kSecretBytes>());
}

Result<JobSecret> JobSecret::read(const std::string& path) {
  auto fd = open_private_file(path);
  if (!fd) return fd.error().in("token file " + path);
  WipedText held;
  if (auto done = read_all(fd->get(), held.text); !done) return done.error().in("token file " + path);
  auto secret = parse(held.text);
  return secret ? secret : Result<JobSecret>(secret.error().in("token file " + path));
}

Result<void> JobSecret::write_new(const std::string& path) const {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd && errno == EEXIST)
    return Error{ErrorKind::usage, path + " is there already and is left as it is: remove it, or name another file",
                 EEXIST};
  if (!fd) return system_error("cannot make " + path, errno);
  WipedText held{text() + "\n"};
  const ssize_t written = ::write(fd.get(), held.text.data(), held.text.size());
  const int error = written < 0 ? errno : ENOSPC;
  if (written == static_cast<ssize_t>(held.text.size()) && fsync(fd.get()) == 0) return {};
  ::unlink(path.c_str());
  return system_error("cannot write " + path, error);
}

std::string JobSecret::text() const {
  Raw raw;
  std::copy(memory_.bytes().begin(), memory_.bytes().end(), raw.begin());
  const std::uint32_t crc = checksum(memory_.bytes());
  for (std::size_t i = 0; i < 4; ++i) raw[kSecretBytes + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  std::string text;
  text.reserve(kPrefix.size() + kTextLetters + 1);
  text = kPrefix;
  for (std::size_t i = 0; i < raw.size(); i += 3) {
    const std::uint32_t group =
        static_cast<std::uint32_t>(raw[i]) << 16 | static_cast<std::uint32_t>(raw[i + 1]) << 8 | raw[i + 2];
    for (int shift = 18; shift >= 0; shift -= 6) text += kLetters[group >> shift & 63];
  }
  return text;
}

// Extracted anew each time, so that only one form of the secret is kept; it takes microseconds.
Result<void> JobSecret::derive(std::string_view info, std::span<std::uint8_t> key) const {
  auto extracted = hkdf_extract(bytes_of(kSalt), memory_.bytes());
  if (!extracted) return extracted.error();
  return hkdf_expand(*extracted, info, key);
}

Result<std::string> JobSecret::fingerprint() const {
  std::array<std::uint8_t, 4> digest = {};
  if (auto done = derive("fingerprint", digest); !done) return done.error();
  return fmt::format("{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]);
}

Result<LinkKey> JobSecret::key_of(const LinkName& link) const {
  // The job's name comes last: no two links have the same text.
  LinkKey key;
  const std::string info = fmt::format("link/{}/{}/{}", word_of(link.role), link.epoch, link.job);
  if (auto done = derive(info, key); !done) return done.error();
  return key;
}

Result<HkdfKey> JobSecret::authority_key(const std::string& job) const {
  // The order of P-256 begins with 32 ones, so what does not is below it; all zeros does not happen.
  for (int attempt = 0;; ++attempt) {
    HkdfKey key;
    if (auto done = derive(fmt::format("authority/{}/{}", attempt, job), key); !done) return done.error();
    if (key[0] != 0xff || key[1] != 0xff || key[2] != 0xff || key[3] != 0xff) return key;
  }
}

Result<std::string> JobSecret::identity_job(const std::string& job) const {
  if (stands_for_itself(job)) return job;
  std::array<std::uint8_t, 16> digest = {};
  if (auto done = derive("job/" + job, digest); !done) return done.error();
  return hashed_job(digest);
}

bool JobSecret::operator==(const JobSecret& other) const {
  std::uint8_t differ = 0;
  for (std::size_t i = 0; i < kSecretBytes; ++i) differ |= memory_.bytes()[i] ^ other.memory_.bytes()[i];
  return differ == 0;
}

}  // namespace dtrain
