#pragma once
// Runs a function as N processes, the ranks of a group, and collects what each one says. The parent must not have used
// torch's thread pools before: they do not survive a fork.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "strategies/comm/bootstrap/peers.h"

namespace dtrain::test {

struct RankOutcome {
  bool exited = false;  // with code 0 after the function ended; false: killed, at the deadline too, or exited early
  int signal = 0;       // that ended it
  bool threw = false;   // the function threw; `said` is the message
  std::string said;     // what the function returned
  double seconds = 0;   // from the start to its end
};

// How long ranks may take on a machine that others keep busy.
inline constexpr std::chrono::seconds kRanksLimit{60};

// Fork `ranks` children; each runs body(rank) and reports the string it returns. Those that live on at the deadline are
// killed; before it, when all that are left are stopped (SIGSTOP).
std::vector<RankOutcome> run_ranks(int ranks, const std::function<std::string(int rank)>& body,
                                   std::chrono::seconds deadline = kRanksLimit);

// Fails the test case unless every rank returned; shows what the others said.
void require_all_returned(const std::vector<RankOutcome>& outcomes);

// A meeting place in memory that forked children share. Make it before the fork.
class SharedBoard : public GroupStore {
 public:
  SharedBoard();
  ~SharedBoard() override;
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  void put(const std::string& key, const std::string& value) override;
  std::string take(const std::string& key, Deadline deadline) override;
  std::string first(const std::string& key, const std::string& value) override;

 private:
  struct Memory;
  const char* find(const std::string& key) const;  // null: nothing; with the lock held
  void add(const std::string& key, const std::string& value);
  Memory* memory_;
};

// Another meeting place, for tests that change a part of what a rank says or hears.
class PassedOn : public GroupStore {
 public:
  explicit PassedOn(GroupStore& place) : place_(place) {}
  void put(const std::string& key, const std::string& value) override { place_.put(key, value); }
  std::string take(const std::string& key, Deadline deadline) override { return place_.take(key, deadline); }
  std::string first(const std::string& key, const std::string& value) override { return place_.first(key, value); }

 private:
  GroupStore& place_;
};

// The names in /dev/shm: where a group would leave something behind if it did.
std::vector<std::string> shared_memory_names();

}  // namespace dtrain::test
