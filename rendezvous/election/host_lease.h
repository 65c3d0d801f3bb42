#pragma once
// Whether the host of a job may still call itself so, where its nodes can choose another one. Pure.
//
// The host's answers to pings carry a stamp of its own clock, and the next ping of the node brings that back. A node
// that helps to choose another host takes no stamp of this one afterwards. So as long as the newest stamps that came
// back are young, at so many of the voters that the others are no majority (the host itself is one of them), nobody has
// been chosen; and whoever is chosen later knows how young they can have been.
//
// Who the voters are changes with each round. Until the new ones have been heard, and so many of the old ones know of
// the round that they choose nobody without it, the lease is that of the old ones; then the round is settled. Whoever
// would be chosen before needs a majority of both.
#include <map>
#include <vector>

#include "rendezvous/base/clock.h"
#include "rendezvous/rounds/link_pulse.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain {

// More than half: they choose a host.
inline std::size_t majority(const VoterSet& voters) { return voters.size() / 2 + 1; }
// Without so many there is no majority.
inline std::size_t blocking(const VoterSet& voters) { return voters.size() + 1 - majority(voters); }

class HostLease {
 public:
  HostLease(const PulseSettings& pulse, VoterId self) : pulse_(pulse), self_(self) {}

  // A host that was chosen begins with those who could.
  void begin(std::vector<VoterSet> chosen_by) { sets_ = std::move(chosen_by); }
  // A stamp has come back, from a node that knows of this host's round.
  void echoed(VoterId from, MonoTime stamp, int round, MonoTime now);
  // It leaves the job and takes part in no choice any more: as good as a stamp that never grows old.
  void left(VoterId voter, MonoTime now);
  // A round is about to open. If the one before was not settled, it never will be.
  void propose(int round, VoterSet voters, MonoTime now);
  bool settled() const { return next_.empty(); }
  int settled_round() const { return settled_round_; }
  // What a majority is needed of, too, to choose another host, until the round that was proposed last is settled.
  std::vector<VoterSet> earlier() const { return settled() ? std::vector<VoterSet>() : sets_; }

  // Until then nobody else opens a round.
  MonoTime bound() const;
  bool sure(MonoTime now) const { return now < bound(); }

 private:
  void settle(MonoTime now);
  MonoTime bound(const VoterSet& voters) const;
  bool known(const VoterSet& voters) const;

  struct Heard {
    MonoTime stamp{};
    int round = -1;
  };
  PulseSettings pulse_;
  VoterId self_;
  std::vector<VoterSet> sets_;  // the lease is of each of these; none: nobody can choose another host
  VoterSet next_;               // of round_, while it is not settled
  int round_ = -1, settled_round_ = -1;
  std::map<VoterId, Heard> heard_;
};

}  // namespace dtrain
