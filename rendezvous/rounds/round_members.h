#pragma once
// The nodes of a job that are connected: each is found by its connection, by its agent and by its wanted rank, and they
// are counted as they change, since 100,000 nodes must not cost the square of that. Pure.
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "rendezvous/rounds/round_messages.h"

namespace dtrain {

using MemberId = std::uint64_t;

struct RoundMember {
  MemberId id = 0;
  NodeInfo info;
  int node_rank = -1;  // in the present round; -1: not in it
  int base_rank = 0;   // of its local rank 0, in the present round
  bool over = false;   // it has nothing left of the present round
  bool ok = false;     // ... and its workers ended well
  bool leaving = false;

  bool in_round() const { return node_rank >= 0; }
  bool has_rank(int rank) const { return in_round() && rank >= base_rank && rank < base_rank + info.workers; }
};

class RoundMembers {
 public:
  // In the order of their joining.
  const std::map<MemberId, RoundMember>& all() const { return members_; }
  std::size_t size() const { return members_.size(); }
  bool empty() const { return members_.empty(); }
  const RoundMember& at(MemberId id) const { return members_.at(id); }
  // Null: there is none.
  const RoundMember* find(MemberId id) const;
  const RoundMember* of_agent(const std::string& agent_id) const;
  const RoundMember* with_wanted_rank(int rank) const;

  // The node's agent and its wanted rank, if it has one (-1: none), are nobody else's.
  void add(MemberId id, const NodeInfo& info);
  void remove(MemberId id);
  void set_leaving(MemberId id);

  // Takes all members out of the present round, then each of the next one is placed.
  void clear_places();
  void place(MemberId id, int node_rank, int base_rank);
  void set_over(MemberId id, bool ok);
  // Takes all members out of the present round; `last`, with their own node ranks, is their last place.
  void end_round(const LastPlace& last);

  int staying() const { return int(members_.size()) - leaving_; }
  // Of the present round.
  int placed() const { return placed_; }
  int over() const { return over_; }
  bool all_over() const { return over_ == placed_; }
  bool all_ok() const { return ok_ == placed_; }
  // In a job with fixed ranks.
  std::size_t wanted_ranks() const { return wanted_.size(); }

 private:
  void count(const RoundMember& m, int by);

  std::map<MemberId, RoundMember> members_;
  std::map<std::string, MemberId> agents_;  // the same, by agent_id
  std::map<int, MemberId> wanted_;          // the same, by wanted_rank
  int leaving_ = 0;
  int placed_ = 0, over_ = 0, ok_ = 0;
};

}  // namespace dtrain
