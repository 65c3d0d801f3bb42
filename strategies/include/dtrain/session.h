#pragma once
// dtrain::init() joins the job that the launcher started, and returns a Session. Without a launcher the world is this
// process alone, and the same program runs unchanged.
//
//   auto session = dtrain::init();
//   dtrain::Parallel model(session, [] { return Net(); });
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
  // How long init() waits for all ranks to come.
  std::chrono::milliseconds join_timeout{300'000};
  // How long a collective may take. Then it fails, and the error names the rank that is missing. The time must be
  // longer than the longest time that one rank works while the others wait, as for a validation or a checkpoint on rank
  // 0.
  std::chrono::milliseconds collective_timeout{1'800'000};
};

// Any thread may call collectives, if their order is the same on every rank. No thread may use the session while
// shutdown() or the destructor runs. A process that is forked from this one can only destroy its copy of the session,
// and that does nothing.
class Session {
 public:
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  // No collective. If the session was not shut down, the other ranks take this for an error: collectives that wait for
  // this rank fail, and the error names it.
  ~Session();

  int rank() const { return env().rank; }
  int world_size() const { return env().world_size; }
  int local_rank() const { return env().local_rank; }
  int local_world_size() const { return env().local_world_size; }
  bool is_first() const { return rank() == 0; }
  const WorkerEnv& env() const;
  // What DTRAIN_STRATEGY says of training beside the strategy (training_config.h). No collective.
  const TrainingConfig& training_config();
  // Throws ConfigError if there is something of that kind, and nobody has called training_config(). Parallel, Ddp and
  // hvd call this: a config is carried out, or it is an error.
  void require_config_known() const;
  // world(), for what trains data parallel and in no other way; `wrapper` is its name in errors. Throws ConfigError if
  // DTRAIN_STRATEGY asks for more than plain ddp, or as require_config_known() does. No collective.
  const Group& world_for_ddp(const char* wrapper) const;

  // Where this rank's model and data belong. If dtrain was built with CUDA and this process sees GPUs, it is the GPU
  // with the number of the local rank, or the only GPU. Otherwise it is the CPU.
  torch::Device device() const;
  // The process group of all ranks, for torch's own collectives. CPU tensors go through dtrain's shared memory on one
  // host, and over TCP between hosts. CUDA tensors go through NCCL.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return world().process_group(); }
  // The group of all ranks. It has more collectives than Session, and messages between two ranks (group.h).
  const Group& world() const;
  // The job's store. All keys are under a prefix of this session. In a world of one rank the store is in the memory of
  // this process. Throws c10::Error after shutdown().
  const c10::intrusive_ptr<c10d::Store>& store() const;

  // new_group() and split() form a group of some ranks. They are collectives of the session: all ranks call them, in
  // the same order. A rank that is not in the group gets an empty Group. They throw ConfigError on every rank if the
  // ranks called them with different lists, or called something else, or if the list is empty, names a rank twice, or
  // names a rank that does not exist. No group forms then, and the session goes on working. Other errors are those of
  // init(). Each rank sends its arguments, as text, to all ranks before the group forms.
  //
  // Rank i of the new group is ranks[i].
  Group new_group(const std::vector<int>& ranks, const GroupSettings& settings = {});
  // The group of all ranks with the same colour as this rank, in the order of the session. A rank without a colour gets
  // an empty Group.
  Group split(std::optional<int> colour, const GroupSettings& settings = {});

  // The next calls are collectives of all ranks, except empty_shared(). They block until they are done; for a CUDA
  // tensor, until the collective is in the current stream. All ranks must call them in the same order. They throw
  // CollectiveError; docs/training/collectives.md says how errors of CUDA tensors differ. For a tensor that is not
  // allowed they throw c10::Error at once, on the calling rank. Tensors are dense, of any shape and strides, and of the
  // same size and type on all ranks. The tensor that is written must not be expanded. group.h says how many bytes each
  // collective moves.
  void barrier();
  // Reduces in place. SUM and PRODUCT take all number types and bool, except float8. AVG takes floating and complex
  // types. MIN and MAX take all of these types except complex ones. BAND, BOR and BXOR take integers and bool. SUM and
  // AVG take sparse COO tensors, too.
  void all_reduce(torch::Tensor tensor, c10d::ReduceOp op = c10d::ReduceOp::SUM);
  // A tensor, not initialised, in memory that the ranks of one host share. all_reduce needs no copies if the tensors of
  // all ranks are made by empty_shared() and have 8 KiB or more. For a CUDA device, in a world of one rank, and if
  // there is no room, the tensor is an ordinary one. No collective. The memory is given back with the last reference to
  // the tensor. A page of it costs nothing until it is written.
  torch::Tensor empty_shared(torch::IntArrayRef sizes, torch::TensorOptions options = {}) const;
  // In place: the other ranks receive the values of rank `root`. Takes any type.
  void broadcast(torch::Tensor tensor, int root = 0);

  // The ranks that are left go on (docs/training/survivors.md). Under `dtrain run --survivors N`, a rank that dies does
  // not end the others: their collectives throw CollectiveError (what forms groups: std::runtime_error), and each calls
  // reform(). Collective of all ranks that live; one that still computes is waited for, at most for the collective
  // timeout. Then the session is the new world: ranks have new numbers, in the old order, and processes that the
  // launcher started in the place of dead ones come last. Such a process joins in init(). All groups of the session
  // have ended; destroy what was made of them (Parallel, Ddp, Mesh), make it anew, and give all ranks the same weights,
  // optimizer and step: a step may be done on some ranks and not on others. Throws ConfigError without --survivors, or
  // with GPUs; CollectiveError or std::runtime_error if no group forms. No other thread may use the session meanwhile.
  void reform();
  // Collective. Whether a process waits to join, so that it is time for reform(). Cheap enough for each step: it asks
  // the store on rank 0. Without --survivors: false, and no collective.
  bool joiner_waits();

  // Collective. Waits for all ranks, then ends the session and its groups. The groups end in the reverse of the order
  // in which they were formed. After it, collectives, group() and store() throw c10::Error.
  void shutdown();

  struct State;  // opaque

 private:
  explicit Session(std::unique_ptr<State> state);
  friend class Mesh;
  friend Session init(const WorkerEnv& env, const InitOptions& options);
  std::unique_ptr<State> state_;
};

// No collective. The default generators of torch, for the CPU and for this rank's GPU, begin with numbers that depend
// on the seed, the step and the rank alone. Call it before each step: then dropout and other random operators give a
// run that goes on from a checkpoint the numbers of an undisturbed one, and no state of a generator has to be saved.
// Another number of ranks has other numbers. Ranks that shall have equal numbers, as for the model's first weights,
// call torch::manual_seed() instead.
void seed_step(const Session& session, std::uint64_t seed, std::int64_t step);

// Collective. Reads the worker environment (worker_env.h), connects to the store and forms the group of all ranks. Call
// it once in a process, before other threads change the environment. Throws ConfigError if the environment makes no
// sense. Throws std::runtime_error if the store cannot be reached, or if the ranks did not come in time or cannot be
// connected. Throws CollectiveError if a rank dies meanwhile. From then on, the launcher learns the text of an
// exception that nobody catches. Without a GPU, init() also sets DDP_DISABLE_COMM_MEM=0 and lets malloc keep freed
// memory (docs/training/data-parallel.md).
Session init(const InitOptions& options = {});
// The same, with an environment that the caller gives.
Session init(const WorkerEnv& env, const InitOptions& options);

}  // namespace dtrain
