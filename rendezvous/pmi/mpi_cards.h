#pragma once
// What the processes of an MPI job tell each other, so that those of each host become one agent. Each shows a card. The
// first process reads all cards, and answers each with a seat. Pure; the texts come from processes of the same user,
// which may be of another version, and so are judged.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/sealed_secret.h"

namespace dtrain {

struct MpiCard {
  std::string host{};  // as the launcher calls it: the same for all processes of the host, and no other's
  int local_rank = 0, local_size = 1;
  PublicKey key{};
  std::vector<std::string> addresses{};  // rank 0's: numeric, not the loopback's
  std::vector<int> cpus{};               // on which it may run, ascending, if its host has several processes
  std::string command{};                 // of what was typed after the program: the same on a host
  std::string credential{};              // that the user has named, "token 1a2b3c4d"; empty: none
  std::string failure{};                 // why it cannot be an agent or a worker; empty: it can
  ErrorKind failure_kind{};              // then all processes end with this kind's exit code
  bool operator==(const MpiCard&) const = default;
};

struct MpiSeat {
  int nodes = 1;
  int node_rank = 0;        // -1: another process of its host is the agent, and this one has nothing to do
  int workers = 1;          // processes of the job on its host
  std::vector<int> cpus{};  // of all these
  std::string secret{};     // sealed for this process; empty: there is one node
  bool operator==(const MpiSeat&) const = default;
};

// No blanks, below 1024 bytes: what PMI-1 can have as a value. Addresses, and then CPUs, that do not fit are left out.
Result<std::string> card_text(const MpiCard& card);
Result<MpiCard> parse_card(std::string_view text);
std::string seat_text(const MpiSeat& seat);
// Error: it makes no sense, or says why there is no job.
Result<MpiSeat> parse_seat(std::string_view text);

// By rank. Without secrets. Error: a process cannot start, the cards contradict each other, processes of one host have
// different commands, or agents have different credentials.
Result<std::vector<MpiSeat>> seats_for(const std::vector<MpiCard>& cards);
// A seat for nobody: why there is no job.
std::string no_seat_text(const Error& why);

// What PRRTE says of the CPUs of a job, as in CORE:IF-SUPPORTED and BYCORE:NOOVERSUBSCRIBE. Whether it has bound
// processes, and nobody has typed how.
bool is_own_choice(std::string_view binding, std::string_view mapping);

// Those that are agents, by node rank.
std::vector<std::string> hosts_of_agents(const std::vector<MpiCard>& cards);

}  // namespace dtrain
