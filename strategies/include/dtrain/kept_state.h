#pragma once
// KeptState: the state of training in memory that the launcher keeps, so that a restart goes on from the last step and
// reads no disk. `dtrain run --keep-state --max-restarts N` makes the memory; without it nothing is kept, and the same
// program runs on.
//
//   dtrain::KeptState kept(session);
//   auto loaded = model.load(checkpoints, kept, optimizer);   // the newest of memory and disk
//   for (step = loaded ? loaded->step : 0; step < steps; ...) {
//     ...
//     model.step(optimizer);
//     model.keep(kept, ++step, optimizer);                    // this rank's part, in memory
//   }
//
// A kill of a rank at any moment leaves the last step that keep() has finished on all ranks, or the step after it. The
// next round may have another number of ranks: the ranks send each other what they need. What a node has kept is lost
// when its launcher ends, as when the node does. With `--copy-state` each rank also has a copy of the state of a rank
// on another node, so that one node may be lost. All memory is lost when the job ends, unless `--state-dir` has it
// written for the job's next run: so save checkpoints to a disk too, but more rarely. docs/training/checkpoints.md is
// the guide.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "dtrain/checkpoint.h"
#include "dtrain/session.h"

namespace dtrain {

// One for each process: a second one is an error while the first one lives. One thread at a time uses it.
class KeptState {
 public:
  // No collective. Throws ConfigError if the launcher keeps the state of this rank and the memory did not reach this
  // process, or another process of the rank has it.
  explicit KeptState(const Session& session);
  ~KeptState();
  KeptState(KeptState&&) noexcept;
  KeptState& operator=(KeptState&&) noexcept;

  // Whether this rank has memory that outlives it. If not, keep() does nothing, and why_not() says "no kept state here"
  // and the reason, in one line.
  bool here() const;
  const std::string& why_not() const;
  // Why there are no copies on other nodes, in one line; empty if there are. It is known after the first restore() or
  // keep() of a round: copies need ranks on two nodes, and no node with more than half of the ranks.
  const std::string& why_no_copy() const;

  // Copies the values of this rank's pieces into the memory, and returns when the state counts. No collective; but with
  // `--copy-state` all ranks call this for each step that they keep, and it returns when the copies count too. The step
  // before it stays, until the next call. The memory is twice the size of the values, and with copies four times. The
  // names, types, shapes and parts are the same at each step; if they change, the states before are lost. `extra` is
  // kept by rank 0, 1 MiB at most, and comes back as it was. Ranks that keep each step, and exchange something in each
  // step, as gradients, have one step in common whenever one of them is killed. Throws CheckpointError, on this rank
  // alone, if there is not enough memory. Call restore() first in each round, also in the first one: it finds what an
  // earlier run has left (`--state-dir`). Without it, that state may count as the newer one later.
  void keep(const CheckpointState& state);

  // Collective of the session. Fills the values of `state`, its step and extra with the newest state that is whole:
  // what each rank of its round had kept is there, in the memory of some rank. `kept` has the pieces that this rank
  // gives to keep(): the same names, types and shapes in the same order; none: those of `state`. Ranks may keep less of
  // a tensor than they need, and another part of it than in the round before, if the ranks of a round together keep all
  // of it. What several ranks have kept of a tensor comes from the rank of the same number; with fewer or more ranks
  // than before, from that of the same number modulo the ranks before. Returns nothing if nothing is kept, or only
  // steps below `at_least`, or if the state cannot be used: refused() then has the reason. Throws CheckpointError or
  // CollectiveError.
  std::optional<Loaded> restore(CheckpointState& state, const CheckpointState* kept = nullptr,
                                std::int64_t at_least = 0);
  // Why the last restore() could not use what was kept, in one line; empty if it could, or if nothing was kept.
  const std::string& refused() const;

  struct State;  // opaque

 private:
  std::unique_ptr<State> state_;
};

}  // namespace dtrain
