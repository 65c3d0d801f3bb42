#include "rendezvous/credentials/link_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace dtrain {
namespace {

constexpr std::size_t kFingerprintDigits = 8;
constexpr std::size_t kHashedJobBytes = 16;

// The text before the next '/', which is taken away with it.
std::optional<std::string_view> field(std::string_view& rest) {
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view text = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  return text;
}

std::optional<LinkRole> role_of(std::string_view word) {
  for (LinkRole role : {LinkRole::agent, LinkRole::store, LinkRole::engine})
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

std::string role_and_epoch(const LinkName& link) {
  std::string text(kLinkPrefix);
  return text.append(word_of(link.role)).append("/").append(std::to_string(link.epoch)).append("/");
}

std::optional<LinkName> take_role_and_epoch(std::string_view& text) {
  if (!text.starts_with(kLinkPrefix)) return std::nullopt;
  text.remove_prefix(kLinkPrefix.size());
  const auto role = field(text), epoch = field(text);
  const auto known_role = role ? role_of(*role) : std::nullopt;
  const auto known_epoch = epoch ? number(*epoch) : std::nullopt;
  if (!known_role || !known_epoch) return std::nullopt;
  return LinkName{*known_role, *known_epoch, ""};
}

bool take_job(std::string_view text, LinkName& link) {
  link.job = text;
  return !text.empty() && text.size() <= kJobBytes;
}

}  // namespace

std::string_view word_of(LinkRole role) {
  switch (role) {
    case LinkRole::agent:
      return "agent";
    case LinkRole::store:
      return "store";
    case LinkRole::engine:
      return "engine";
  }
  return {};
}

std::string encode(const LinkIdentity& identity) {
  return role_and_epoch(identity.link).append(identity.fingerprint).append("/").append(identity.link.job);
}

std::optional<LinkIdentity> parse_identity(std::string_view text) {
  if (text.size() > kIdentityBytes) return std::nullopt;
  auto link = take_role_and_epoch(text);
  const auto fingerprint = field(text);
  if (!link || !fingerprint || fingerprint->size() != kFingerprintDigits || !lower_hex(*fingerprint))
    return std::nullopt;
  if (!take_job(text, *link)) return std::nullopt;
  return LinkIdentity{*link, std::string(*fingerprint)};
}

std::string encode(const LinkName& link) { return role_and_epoch(link).append(link.job); }

std::optional<LinkName> parse_link_name(std::string_view text) {
  auto link = take_role_and_epoch(text);
  return link && take_job(text, *link) ? link : std::nullopt;
}

bool stands_for_itself(const std::string& job) { return !job.empty() && job.size() <= kJobBytes && job[0] != '#'; }

std::string hashed_job(std::span<const std::uint8_t> digest) {
  return fmt::format("#{:02x}", fmt::join(digest.first(kHashedJobBytes), ""));
}

}  // namespace dtrain
