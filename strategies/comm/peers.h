#pragma once
// How the ranks of a group find each other's memory: facts exchanged through the store, never guessed from
// LOCAL_WORLD_SIZE (a group may span hosts whatever that says).
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

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
};

// Where a process runs, in terms of what it can share with others.
struct PeerFacts {
  std::string host;           // name, for messages
  std::string boot_id;        // of the running kernel: two hosts never agree
  std::string pid_namespace;  // processes of two do not see each other in /proc
  int pid = 0;
  int uid = -1;      // effective user: only processes of one user may open each other's descriptors
  int proc_pid = 0;  // its number in /proc, another one where a PID namespace was entered without mounting its /proc
};

PeerFacts own_facts();
std::string serialize(const PeerFacts& facts);
// Throws std::runtime_error where the text is malformed.
PeerFacts parse_facts(const std::string& text);

// Empty where all ranks can share memory; else one line that says which cannot and what to do.
std::string why_not_together(const std::vector<PeerFacts>& facts);

// Collective: rank 0 creates the segment, the others open it. On return every rank's pid is in its block. Throws
// std::runtime_error: the same on every rank where their facts say that they cannot share memory, or on one rank alone
// where it cannot open the segment; the others then notice its end, or the deadline, when they wait for it.
ShmSegment meet(MeetingPlace& place, int rank, int ranks, std::uint32_t slot_bytes, MeetingPlace::Deadline deadline);

}  // namespace dtrain
