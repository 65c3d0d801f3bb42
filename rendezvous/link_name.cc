#include "rendezvous/link_name.h"

#include <algorithm>
#include <charconv>

namespace dtrain {
namespace {

constexpr std::string_view kVersion = "dtrain1";
constexpr std::size_t kFingerprintDigits = 8;

// The text before the next '/', which is taken away with it.
std::optional<std::string_view> field(std::string_view& rest) {
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view text = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  return text;
}

std::optional<LinkRole> role_of(std::string_view word) {
  for (LinkRole role : {LinkRole::agent, LinkRole::store})
    if (word == word_of(role)) return role;
  return std::nullopt;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // One way to write each number, so that one link has one identity.
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text) return std::nullopt;
  return value;
}

bool lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string_view word_of(LinkRole role) { return role == LinkRole::agent ? "agent" : "store"; }

std::string encode(const LinkIdentity& identity) {
  std::string text(kVersion);
  text.append("/").append(word_of(identity.link.role)).append("/").append(std::to_string(identity.link.epoch));
  return text.append("/").append(identity.fingerprint).append("/").append(identity.link.job);
}

std::optional<LinkIdentity> parse_identity(std::string_view text) {
  if (text.size() > kIdentityBytes) return std::nullopt;
  if (field(text) != kVersion) return std::nullopt;
  const auto role = field(text), epoch = field(text), fingerprint = field(text);
  if (!role || !epoch || !fingerprint || text.empty() || text.size() > kJobBytes) return std::nullopt;
  const auto known_role = role_of(*role);
  const auto known_epoch = number(*epoch);
  if (!known_role || !known_epoch || fingerprint->size() != kFingerprintDigits || !lower_hex(*fingerprint))
    return std::nullopt;
  return LinkIdentity{{*known_role, *known_epoch, std::string(text)}, std::string(*fingerprint)};
}

}  // namespace dtrain
