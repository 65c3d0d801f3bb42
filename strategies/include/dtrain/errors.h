#pragma once
// What collectives, and messages between two ranks, throw.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

enum class FailureKind {
  peer_died,   // the process of `rank` ended
  peer_left,   // `rank` shut its session down, or dropped it after an error
  timed_out,   // `rank` did not arrive in time: stopped, hung, or in another part of the program
  mismatched,  // `rank` called another collective, or with another size or root, or type of a reduction;
               // with DTRAIN_CHECK_CALLS=1 any other type or shape
  aborted,     // `rank` aborted the group
};

// A collective or a message cannot finish. After it the group is broken: every further one throws the same error at
// once, so the program should end and let the launcher start the next round.
class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(FailureKind kind, int rank, const std::string& message)
      : std::runtime_error(message), kind_(kind), rank_(rank) {}

  FailureKind kind() const { return kind_; }
  // The rank that caused it, as the session counts them in its groups too; the same on every rank that reports it.
  int rank() const { return rank_; }

 private:
  FailureKind kind_;
  int rank_;
};

// Parameters that should be the same on all ranks are not: some rank changed its own, or computed something else. The
// group is whole, and every rank throws.
class DivergedError : public std::runtime_error {
 public:
  DivergedError(std::string parameter, std::vector<int> ranks, const std::string& message)
      : std::runtime_error(message), parameter_(std::move(parameter)), ranks_(std::move(ranks)) {}

  // The first one that differs, by its name in the module.
  const std::string& parameter() const { return parameter_; }
  // Those whose parameter is not that of the first rank, in order, as the session counts them.
  const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::string parameter_;
  std::vector<int> ranks_;
};

}  // namespace dtrain
