// The number by which an agent votes.
#include "rendezvous/rounds/round_messages.h"

namespace dtrain {

// FNV-1a: agent_id is random itself.
VoterId voter_id(const std::string& agent_id) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : agent_id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash != 0 ? hash : 1;
}

}  // namespace dtrain
