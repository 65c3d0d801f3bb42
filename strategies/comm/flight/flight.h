#pragma once
// The flight recorder: what this process's groups did last, written to a file when a group fails because ranks do not
// fit together (FailureKind::timed_out, mismatched), or when a signal asks for it. `dtrain flight` compares the files
// of all ranks and says which is missing where. Settings: flight_settings.h. How and why: docs/adr/0607.
//
// One thread for each process that has groups sleeps on their failure words: so a rank that is not in the collective
// that failed writes its file too, even where none of its threads ever comes back. Nothing is written otherwise.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "strategies/comm/flight/flight_ring.h"
#include "strategies/comm/groups/group.h"

namespace dtrain {

// The recorder's view of one group of this process. A forked child inherits it and uses none of it.
class FlightLog {
 public:
  // `key`: the same on all ranks of the group, and no other group's. Throws ConfigError (flight_settings.h).
  FlightLog(std::string key, int rank, int size);
  ~FlightLog();
  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  // From now on write the file where this group fails. Once, not in a group of one rank.
  void watch(std::shared_ptr<CommGroup> group);
  // No longer; the group is no longer held.
  void unwatch();

  // For people. The first one counts.
  bool has_name() const { return named_; }
  void name(std::string name);

  // Any thread, but queued() is called in the order of the collectives.
  FlightRing::Ticket queued(const FlightCall& call, bool starts);
  void started(const FlightRing::Ticket& ticket);
  void ended(const FlightRing::Ticket& ticket, bool well);

  // For whoever is about to throw the group's failure: wait for the file, and for those of this host's other ranks,
  // until a second after the first call at most. What the error's line should say of it; empty: nothing.
  std::string settle();

  bool on() const { return group_ != nullptr; }

 private:
  FlightGroup* group_ = nullptr;  // null: nothing is recorded
  bool named_ = false;
  std::atomic<std::chrono::steady_clock::rep> settled_by_{0};
};

}  // namespace dtrain
