#pragma once
// N jobs want one entry of a cache in an object store, and one of them builds it. A store has no lock, and no write
// that fails if the object is there. So each job that would build writes an object of its own, a claim, looks at the
// others' claims, and decides here. Pure.
//
// Who sees a claim waits. Who sees none writes one. A claim says whether its job builds: its beat is 0 until then, and
// changes every few seconds from then on. A job builds if it has written its claim and sees no other; or if for a
// moment it sees the same others, of which none builds, and has the smallest name. Else it withdraws its claim. So one
// builds, as long as a store does what it is asked within that moment. If it does not, two may build. That costs work
// and does no harm: each builds an entry of its own, and both are right.
//
// As with lease_plan.h, no clocks are compared: a claim is dead if it has not changed while this process looked at it
// for a minute, or if this machine's kernel says so.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "data/cache/lease_plan.h"

namespace dtrain::data {

struct ClaimSeen {
  Lease lease{};
  bool is_dead = false;  // seen by this machine's kernel
  bool builds() const { return lease.beat > 0; }
};

// What a job sees of an entry.
struct ClaimSight {
  bool whole = false;               // the entry is there
  bool has_own = false;             // this job's claim is
  std::vector<ClaimSeen> others{};  // the other jobs' claims
};

enum class ClaimStep {
  use,       // the entry is there
  claim,     // nobody claims: write a claim
  take,      // build
  withdraw,  // another builds, or is about to: remove the claim
  wait,
  tell,     // wait, and say who builds
  give_up,  // it has taken too long
};

// So long others are watched before one of many that claim begins to build.
inline constexpr LeaseTime kClaimSettles = std::chrono::seconds(2);

class ClaimWait {
 public:
  // `owner`: of this job's claim.
  ClaimWait(LeasePatience patience, LeaseTime began, std::string owner)
      : patience_(patience), began_(began), told_(began), owner_(std::move(owner)) {}
  ClaimStep next(const ClaimSight& sight, LeaseTime now);

  // Who builds, after wait and tell; nothing: nobody yet.
  const std::optional<Lease>& builder() const { return builder_; }
  // Whether this owner's claim lives, after take.
  bool lives(const std::string& owner) const { return rivals_.contains(owner); }

 private:
  std::vector<const ClaimSeen*> living(const ClaimSight& sight, LeaseTime now);
  ClaimStep wait_or_tell(LeaseTime now);

  LeasePatience patience_;
  LeaseTime began_;
  LeaseTime told_;
  std::string owner_;
  struct Seen {
    unsigned beat;
    LeaseTime since;
  };
  std::map<std::string, Seen> seen_{};  // by owner
  std::set<std::string> rivals_{};      // that claim too, the same until `settled_`
  LeaseTime settled_{};
  std::optional<Lease> builder_{};
  bool has_looked_ = false;
};

}  // namespace dtrain::data
