#pragma once
// dtrain::init(): join the job that the launcher started, and the Session it returns. With no launcher the world is
// this process alone and the same program runs unchanged.
//
//   auto session = dtrain::init();
//   dtrain::Ddp model(session, Net());
//   ...
//   session.shutdown();
#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "dtrain/errors.h"
#include "dtrain/group.h"
#include "dtrain/worker_env.h"

namespace dtrain {

struct InitOptions {
  // How long to wait for all ranks to come.
  std::chrono::milliseconds join_timeout{300'000};
  // How long a collective may take before it fails naming the ranks that are missing. It must exceed the longest time
  // that one rank works while the others wait (a validation or a checkpoint on rank 0).
  std::chrono::milliseconds collective_timeout{1'800'000};
};

// Collectives may come from any thread, as long as their order is the same on every rank; no other member while
// shutdown() or the destructor runs. In a process forked from this one the session can only be dropped.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  // Does no collective. A session that was not shut down counts as an error: collectives of the other ranks that wait
  // for this one fail and name it.
  ~Session();

  int rank() const { return env().rank; }
  int world_size() const { return env().world_size; }
  int local_rank() const { return env().local_rank; }
  int local_world_size() const { return env().local_world_size; }
  bool is_first() const { return rank() == 0; }
  const WorkerEnv& env() const;

  // Where this rank's model and data belong. Where dtrain was built with CUDA and this process sees GPUs: the one with
  // the local rank's number, or the only one. Else the CPU.
  torch::Device device() const;
  // The process group of all ranks, for torch's own collectives. CPU tensors go through dtrain's shared memory, and
  // between hosts over TCP, CUDA tensors through NCCL.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return world().process_group(); }
  // The same as a Group.
  const Group& world() const;
  // The job's store, with keys of this session only. Nothing in a world of one rank is shared.
  const c10::intrusive_ptr<c10d::Store>& store() const;

  // Collectives of the session: a group of some of its ranks. All ranks call them, in the same order, and those that
  // are not in the group get one that is empty: so ranks that do not agree are found at once, and not when one waits
  // for another until the timeout. They throw ConfigError on every rank, with nothing formed, where ranks called with
  // different lists or something else, or where the list is empty, names a rank twice or one that does not exist; the
  // session goes on working. Else as init(). Before a group forms, what each rank called goes to all, as text.
  //
  // Rank i of the group is ranks[i].
  Group new_group(const std::vector<int>& ranks, const GroupSettings& settings = {});
  // This rank's group is that of all ranks with its colour, in their order; with none it is in no group.
  Group split(std::optional<int> colour, const GroupSettings& settings = {});

  // Collectives that block until done; all ranks must call them in the same order. They throw CollectiveError, or
  // c10::Error at once for a tensor that is not taken. Tensors are dense, of any shape and strides, and of one size and
  // type on all ranks. Algorithms, and how many bytes they move: group.h.
  void barrier();
  // In place. SUM and PRODUCT of any number type or bool, but float8; AVG of floating and complex types; MIN and MAX of
  // all but complex ones; BAND, BOR and BXOR of integers and bool.
  void all_reduce(torch::Tensor tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM);
  // A tensor, not initialised, in memory that ranks of one host share: all_reduce needs no copies where it is of 8 KiB
  // or more and every rank's is such a one. CUDA tensors, and all in a world of one rank, are ordinary ones. No
  // collective. Memory is given back with the last reference, and pages cost nothing until they are written.
  torch::Tensor empty_shared(torch::IntArrayRef sizes, torch::TensorOptions options = {}) const;
  // In place. Any type; the others receive the values of rank `root`.
  void broadcast(torch::Tensor tensor, int root = 0);

  // Collective: wait for all ranks, then end the session and its groups, the last that was formed first. Further use
  // throws.
  void shutdown();

  struct State;  // opaque

 private:
  explicit Session(std::unique_ptr<State> state);
  friend class Mesh;
  friend Session init(const WorkerEnv& env, const InitOptions& options);
  std::unique_ptr<State> state_;
};

// Collective: read the worker environment (worker_env.h), connect to the store and form the group of all ranks. Once
// per process. Throws ConfigError where the environment makes no sense, std::runtime_error where the store cannot be
// reached or the ranks cannot be connected.
Session init(const InitOptions& options = {});
// The same with an environment given by the caller.
Session init(const WorkerEnv& env, const InitOptions& options);

}  // namespace dtrain
