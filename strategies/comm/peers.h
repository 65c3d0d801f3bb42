#pragma once
// How the ranks of a group find each other's memory: facts exchanged through the store, never guessed from
// LOCAL_WORLD_SIZE (a group may span hosts whatever that says).
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/comm/own_cores.h"
#include "strategies/comm/shm_segment.h"

namespace dtrain {

// The store as far as a group needs it. Keys are the group's own.
class MeetingPlace {
 public:
  virtual ~MeetingPlace() = default;
  virtual void put(const std::string& key, const std::string& value) = 0;
  using Deadline = std::chrono::steady_clock::time_point;
  // Wait for the key. Throws std::runtime_error with a short reason at the deadline.
  virtual std::string take(const std::string& key, Deadline deadline) = 0;
  // What the key holds: `value`, if it held nothing before. May wake nobody who waits for it.
  virtual std::string first(const std::string& key, const std::string& value) = 0;
};

// Where a process runs, in terms of what it can share with others.
struct PeerFacts {
  std::string host;           // name, for messages
  std::string boot_id;        // of the running kernel: two hosts never agree
  std::string pid_namespace;  // processes of two do not see each other in /proc
  int pid = 0;
  int uid = -1;      // effective user: only processes of one user may open each other's descriptors
  int proc_pid = 0;  // its number in /proc, another one where a PID namespace was entered without mounting its /proc
  // What the kernel looks at besides (ptrace_may_access): a process may not open what one of another user namespace or
  // group, or with more capabilities, has.
  std::string user_namespace{};
  std::string rights{};  // groups and capabilities
  bool apart = false;    // it has found that it cannot share memory all the same
  std::string cores{};   // that it may run on, as own_cores() says
  CoreQuota quota{};     // as core_quota() says
};

PeerFacts own_facts();
std::string serialize(const PeerFacts& facts);
// Throws std::runtime_error where the text is malformed.
PeerFacts parse_facts(const std::string& text);

// Whether the two processes run on one host, in the same namespaces and with the same rights, and neither is apart.
bool can_share_memory(const PeerFacts& one, const PeerFacts& other);
// The ranks that share memory with each other: in order, by their first ranks.
std::vector<std::vector<int>> by_host(const std::vector<PeerFacts>& facts);

// Whether `rank` and all that may take a core from it, in other containers of its kernel too, have one for each, and
// those that share its quota no less time than that.
bool have_cores(const std::vector<PeerFacts>& facts, int rank);

// Collective: the facts of all ranks. A rank that cannot open what the first of its host to come has is apart, and says
// so on stderr, once in a process. Throws std::runtime_error, the same on every rank, where one did not come.
std::vector<PeerFacts> meet(MeetingPlace& place, int rank, int ranks, MeetingPlace::Deadline deadline);
// After meet(), by the ranks of one host: the first of them creates the segment, and the others open it. On return
// every rank's pid is in its block. Throws std::runtime_error, on one rank alone where it cannot open the segment; the
// others then notice its end, or the deadline, when they wait for it.
ShmSegment meet_on_this_host(MeetingPlace& place, int rank, const std::vector<PeerFacts>& facts,
                             const std::vector<int>& members, std::uint32_t slot_bytes,
                             MeetingPlace::Deadline deadline);

}  // namespace dtrain
