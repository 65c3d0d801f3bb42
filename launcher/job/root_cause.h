#pragma once
// Which worker of a node is to blame, where several have ended: the one function that ranks failures. Pure. GroupCore
// asks while the workers end, so its answer is provisional; the failure report asks when all have ended. Both rank by
// the same testimony, so both answers agree as soon as the ends are the same (docs/adr/0006-who-is-to-blame.md).
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "launcher/job/exit_status.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

// Whom a worker holds responsible for its own end.
struct Blame {
  static constexpr int kNobody = -1;
  static constexpr int kSomebody = -2;  // another rank, unknown which
  int rank = kNobody;                   // of the job
  bool ends = true;                     // that rank is about to end by itself
  std::string what;                     // what that rank did: "left the job"; may be empty
  bool operator==(const Blame&) const = default;
};

// What a worker's end is ranked by, besides its status.
struct Testimony {
  MonoTime since{};      // when the cause was: the worker's end, or earlier if its error file proves that; 0: unknown
  bool stopped = false;  // dtrain had told the worker to end: its end is a consequence
  Blame blame{};
};

struct Fate {
  int rank = 0;                      // of the job
  std::optional<ExitStatus> status;  // none: the worker has not ended
  Testimony told{};
  bool failed_itself() const { return status && !status->success() && !told.stopped; }
};

struct RootCause {
  std::size_t at = 0;      // the worker to blame, an index of `fates`; the worker may be alive, or have ended with 0
  std::size_t failed = 0;  // the worker whose failure gives the exit code: `at`, if that one failed by itself
  Blame blame{};           // `at` blames this rank, which is not among `fates`; rank kNobody: `at` blames nobody
  Blame accusation{};      // another rank's blame of `at`; rank kNobody: `at` is the first that failed by itself
};

// Begins with the worker that failed first by itself, and goes from each worker to the rank that the worker blames.
// From a worker that blames kSomebody it goes to the first worker that failed by itself and does not blame kSomebody,
// else to the last worker that ended with 0 before. `accused`: a rank that workers of other nodes blame; if that rank
// is among `fates`, the search begins there. Empty if no worker failed by itself and none is accused.
std::optional<RootCause> root_cause(std::span<const Fate> fates, const Blame& accused = {});

// The rank that was the last to end with 0 without having been told to end; none: Blame::kNobody.
int last_to_leave(std::span<const Fate> fates);

// How the worker to blame ended, for people: "exit code 3". If the worker ended with 0 or was stopped: what it did.
std::string describe_cause(const Fate& fate, const Blame& accusation);

}  // namespace dtrain::launcher
