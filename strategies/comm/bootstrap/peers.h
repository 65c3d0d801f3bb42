#pragma once
// How the ranks of a group find each other's memory. They exchange facts through the store, and guess nothing from
// LOCAL_WORLD_SIZE: a group may span hosts whatever that variable says.
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/comm/bootstrap/group_store.h"
#include "strategies/comm/bootstrap/own_cores.h"
#include "strategies/comm/memory/shm_segment.h"

namespace dtrain {

// Where a process runs, and what it can share with others.
struct PeerFacts {
  std::string host;           // its name, for messages to the user
  std::string boot_id;        // of the running kernel: two hosts never agree
  std::string pid_namespace;  // processes of two namespaces do not see each other in /proc
  int pid = 0;
  int uid = -1;      // effective user: only processes of one user may open each other's descriptors
  int proc_pid = 0;  // its number in /proc; not `pid` if it entered a PID namespace whose /proc is not mounted
  // What the kernel looks at besides (ptrace_may_access): a process may not open the descriptors of a process with
  // another user namespace or group, or with more capabilities.
  std::string user_namespace{};
  std::string rights{};  // groups and capabilities
  bool apart = false;    // it has found that it cannot share memory, whatever its facts say
  std::string cores{};   // those that it may run on, as own_cores() says
  CoreQuota quota{};     // as core_quota() says
};

PeerFacts own_facts();
std::string serialize(const PeerFacts& facts);
// Throws std::runtime_error if the text is malformed.
PeerFacts parse_facts(const std::string& text);

// Whether the two processes run on one host, in the same namespaces and with the same rights, and neither is apart.
bool can_share_memory(const PeerFacts& one, const PeerFacts& other);
// The hosts: each is the ranks that can share memory with each other, in order. The hosts are in the order of their
// first ranks.
std::vector<std::vector<int>> by_host(const std::vector<PeerFacts>& facts);

// Whether `rank` has a core for itself. It has if the ranks that may run on the same cores, in other containers of the
// same kernel too, have a core each, and if the quota that it shares with others is enough for a core each.
bool have_cores(const std::vector<PeerFacts>& facts, int rank);

// Collective: the facts of all ranks. A rank that cannot open the memory of the first rank of its host to come is
// apart, and says so on stderr, once in a process. Throws std::runtime_error if a rank did not come; all ranks throw
// the same.
std::vector<PeerFacts> meet(GroupStore& store, int rank, int ranks, GroupStore::Deadline deadline);
// Collective of the ranks of one host, after meet(): the first of them creates the segment, and the others open it. On
// return every rank's pid is in its block. Throws std::runtime_error. If one rank cannot open the segment, it alone
// throws; the others notice its end, or the deadline, when they wait for it.
ShmSegment meet_on_this_host(GroupStore& store, int rank, const std::vector<PeerFacts>& facts,
                             const std::vector<int>& members, std::uint32_t slot_bytes, GroupStore::Deadline deadline);

}  // namespace dtrain
