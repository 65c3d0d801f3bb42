#pragma once
// What a connection between two agents is for. Pure. Each name has a key of its own (job_secret.h), and the client
// sends the name, in clear, as the identity of that key: `dtrain1/ROLE/EPOCH/FINGERPRINT/JOB`. With certificates there
// is no such key, and it sends `dtrain1/ROLE/EPOCH/JOB` as the one protocol that it wants (ALPN).
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dtrain {

enum class LinkRole {
  agent,   // rounds and heartbeats: of an agent's thread
  store,   // workers' requests: of its store's thread
  engine,  // an agent's input and output, from and to whoever has started the job's agents
};
std::string_view word_of(LinkRole role);

struct LinkName {
  LinkRole role = LinkRole::agent;
  std::uint64_t epoch = 0;  // agent: 0; store: the round; engine: the agent's number
  std::string job;          // --rdzv-id
  bool operator==(const LinkName&) const = default;
};

inline constexpr std::string_view kLinkPrefix = "dtrain1/";
inline constexpr std::size_t kJobBytes = 128;       // of a job's name in an identity; what is longer is hashed
inline constexpr std::size_t kIdentityBytes = 256;  // TLS libraries take no more

struct LinkIdentity {
  LinkName link;
  std::string fingerprint;  // of the secret: 8 hexadecimal digits
};

std::string encode(const LinkIdentity& identity);
std::optional<LinkIdentity> parse_identity(std::string_view text);
std::string encode(const LinkName& link);  // its job as an identity has it; shorter than 256 bytes, as ALPN wants it
std::optional<LinkName> parse_link_name(std::string_view text);

// Whether a job's name may stand in an identity as it is: neither long, nor empty, nor like one that was hashed.
bool stands_for_itself(const std::string& job);
// What stands there for a job with such a digest of its name, of which it takes the first 16 bytes.
std::string hashed_job(std::span<const std::uint8_t> digest);

}  // namespace dtrain
