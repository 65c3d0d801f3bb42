#pragma once
// The errors that this library throws.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

// The environment or a setting makes no sense. what() is one line that says which one, and what to do.
struct ConfigError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

enum class FailureKind {
  peer_died,   // the process of `rank` ended
  peer_left,   // `rank` shut its session down, or destroyed it after an error
  timed_out,   // `rank` did not arrive in time: it is stopped, hangs, or is in another part of the program
  mismatched,  // `rank` called another collective, or used another size, root, or element type of a reduction;
               // with DTRAIN_CHECK_CALLS=1 on all ranks: any other type or shape
  aborted,     // `rank` aborted the group, or a collective failed on that rank alone
};

// A collective or a message cannot finish. The group is broken after this error: every further collective and message
// throws the same error at once. So let the program end, and let the launcher start the next round.
class CollectiveError : public std::runtime_error {
 public:
  CollectiveError(FailureKind kind, int rank, const std::string& message)
      : std::runtime_error(message), kind_(kind), rank_(rank) {}

  FailureKind kind() const { return kind_; }
  // The rank that caused the error. This is the session's number of that rank, also if a group of some ranks failed. It
  // is the same on every rank that reports the error.
  int rank() const { return rank_; }

 private:
  FailureKind kind_;
  int rank_;
};

// Modules or parameters that should be the same on all ranks are not: the ranks made different modules, or some rank
// changed its parameters in another way. Every rank throws this error. The group goes on working.
class DivergedError : public std::runtime_error {
 public:
  DivergedError(std::string parameter, std::vector<int> ranks, const std::string& message)
      : std::runtime_error(message), parameter_(std::move(parameter)), ranks_(std::move(ranks)) {}

  // The name of the first parameter or buffer that differs.
  const std::string& parameter() const { return parameter_; }
  // The ranks whose parameter differs from that of the first rank, in order. These are the session's numbers.
  const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::string parameter_;
  std::vector<int> ranks_;
};

}  // namespace dtrain
