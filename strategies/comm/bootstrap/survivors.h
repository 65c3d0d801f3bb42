#pragma once
// Which ranks go on together after a rank has died, agreed on through the store. The launcher (`dtrain run
// --survivors`) names the process in each rank's place in DTRAIN_MEMBER: "3.0" is the first, "3.1" has taken its place.
// It puts "gone/3.0" into the store when that process has ended: "well" with exit code 0, else "failed". Keys, all in
// the job's store:
//
//   reform/<g>/here/<member>   this one has come to the meeting for world g; its place
//   reform/<g>/world           the members of world g; whoever knows of all others first puts it there, and it stands
//   reform/joiners             a line for each process that took a place, in the order in which they came
//   reform/admitted/<member>   the world that such a process belongs to
//   reform/latest              the last world
//
// A meeting is over when each member of the world before has come or is gone. So all that live agree, and a rank that
// only computes is waited for. A member that dies after the meeting is found by those who form the group: they meet
// again. Tested by test/unit/strategies/comm/bootstrap/survivors_test.cc.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "strategies/comm/bootstrap/group_store.h"

namespace dtrain {

// Looks again and again for what gives no one event to wait for: a key, or the end of a process. The longer it has
// waited, the longer it waits: a tenth of the time so far, at most a tenth of a second.
class LookAgain {
 public:
  // Returns after the next wait; false: the deadline is over.
  bool pause(GroupStore::Deadline deadline);

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

class MemberStore : public GroupStore {
 public:
  virtual bool has(const std::string& key) = 0;
  // Adds to the value of the key, at once for all.
  virtual void append(const std::string& key, const std::string& text) = 0;
};

struct Member {
  std::string name;  // DTRAIN_MEMBER
  int node = 0;      // GROUP_RANK
  int local_rank = 0;
  bool operator==(const Member&) const = default;
};

// Whether a process of this name took the place of another one.
bool takes_a_place(const std::string& member);

// The ranks of a world are the places in `members`.
struct SurvivorWorld {
  std::int64_t generation = -1;  // -1: nobody has met yet
  std::vector<Member> members;
  std::size_t joiners = 0;                       // lines of reform/joiners that are known
  int rank_of(const std::string& member) const;  // -1: it is not in this world
  std::vector<int> local_ranks(int node) const;
  // Before the keys of this world's group.
  std::string keys() const;
};

class Survivors {
 public:
  // `ranks`: of the world that the launcher started. `store` outlives this object. One thread at a time.
  Survivors(MemberStore& store, Member own, int ranks);

  using Deadline = GroupStore::Deadline;
  // Collective of all that live: the next world, in which this process is. The ranks that were there before keep their
  // order, and new ones follow. A process that took a place waits for the others to meet; if all of them have failed,
  // those that took places are the world. Throws std::runtime_error if a member neither came nor ended by the deadline,
  // or if a process takes a place when the others have come to their end.
  const SurvivorWorld& meet(Deadline deadline);
  // Of the last meeting.
  const SurvivorWorld& world() const { return world_; }
  int rank() const { return world_.rank_of(own_.name); }
  // Whether a process waits to join.
  bool joiners_wait();
  // Whether a member of the world has ended since.
  bool somebody_ended();
  bool somebody_ends_by(Deadline deadline);

 private:
  bool ended(const std::string& member);
  bool all_ended(const SurvivorWorld& world);
  std::vector<Member> await_others(Deadline deadline);
  void take_joiners(SurvivorWorld& world);
  SurvivorWorld world_after(const SurvivorWorld& last, std::vector<Member> came);
  const SurvivorWorld& enter(SurvivorWorld world);
  const SurvivorWorld& join(Deadline deadline);

  MemberStore& store_;
  const Member own_;
  SurvivorWorld world_;
  bool asked_ = false;  // to join
};

}  // namespace dtrain
