#pragma once
// N jobs want one entry of the cache, and one of them builds it. It has the lease: a file with its name in it, whose
// beat it changes every few seconds. The others look at it and decide here. Pure.
//
// Clocks of hosts differ, so no time is compared with another host's: a lease is stale if its beat has not changed
// while this process looked at it for a minute. What a lease protects is work, not the entry: an entry is built in a
// folder of its builder's own and renamed, so two builders would do no harm.
#include <chrono>
#include <optional>
#include <string>

namespace dtrain::data {

using LeaseTime = std::chrono::milliseconds;  // of one clock, from any beginning

struct Lease {
  std::string owner{};  // of this build alone
  std::string user{};
  std::string host{};
  // Which process it is: pids are of a boot and a namespace, and used again.
  std::string boot{};
  std::string pid_space{};
  int pid = 0;
  std::string pid_began{};
  unsigned beat = 0;
};

// Of the same length for each beat, so that it can be written over.
std::string lease_text(const Lease& lease);
// Nothing: it is no lease of this version.
std::optional<Lease> parse_lease(const std::string& text);
// "ann on node1, pid 123"
std::string builder_name(const Lease& lease);
// What a job says that waits for `builder`, and that has waited for so long. Nothing: nobody is known.
std::string waits_for(const Lease& builder);
std::string has_waited(const std::optional<Lease>& builder, std::chrono::milliseconds most);

// What a job sees of an entry.
struct LeaseSight {
  bool whole = false;            // the entry is there
  std::optional<Lease> lease{};  // somebody builds it
  bool builder_is_dead = false;  // seen by this machine's kernel
};

struct LeasePatience {
  LeaseTime stale = std::chrono::seconds(60);
  LeaseTime tell = std::chrono::seconds(30);
  LeaseTime most = std::chrono::hours(1);
};

// Each builder changes its beat so often.
inline constexpr LeaseTime kBeatEvery = std::chrono::seconds(5);

enum class LeaseStep {
  use,      // the entry is there
  take,     // nobody builds it: take the lease
  replace,  // its builder is gone: take the lease from it
  wait,
  tell,     // wait, and say who builds
  give_up,  // it has taken too long
};

class LeaseWait {
 public:
  LeaseWait(LeasePatience patience, LeaseTime began) : patience_(patience), began_(began), told_(began) {}
  LeaseStep next(const LeaseSight& sight, LeaseTime now);

 private:
  LeasePatience patience_;
  LeaseTime began_;
  LeaseTime told_;
  struct Seen {
    std::string owner;
    unsigned beat;
    LeaseTime since;
  };
  std::optional<Seen> seen_{};
  bool has_looked_ = false;
};

}  // namespace dtrain::data
