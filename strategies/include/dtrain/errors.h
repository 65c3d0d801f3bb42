#pragma once
// What a collective, or a message between two ranks, throws when it cannot finish. After it the group is broken: every
// further one throws the same error at once, so the program should end and let the launcher start the next round.
#include <stdexcept>
#include <string>

namespace dtrain {

enum class FailureKind {
  peer_died,   // the process of `rank` ended
  peer_left,   // `rank` shut its session down, or dropped it after an error
  timed_out,   // `rank` did not arrive in time: stopped, hung, or in another part of the program
  mismatched,  // `rank` called another collective, or with another size, type or root than the others
  aborted,     // `rank` aborted the group
};

class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(FailureKind kind, int rank, const std::string& message)
      : std::runtime_error(message), kind_(kind), rank_(rank) {}

  FailureKind kind() const { return kind_; }
  // The rank that caused it; the same on every rank that reports it.
  int rank() const { return rank_; }

 private:
  FailureKind kind_;
  int rank_;
};

}  // namespace dtrain
