#pragma once
// Strategy: how the ranks share a model and its training. `dtrain run --strategy` or the environment variable
// DTRAIN_STRATEGY names it, as a word ("fsdp") or as JSON, and Parallel (parallel.h) carries it out:
//
//   {"type": "fsdp", "reshard_after_forward": true, "mixed_precision": {"param": "bfloat16", "reduce": "float32"}}
//
// P ranks, S bytes of parameters, as many of gradients, and twice as many of an optimizer's state such as Adam's. What
// a rank has of each:
//               parameters   gradients   optimizer state
//   ddp         S            S           2 S
//   zero1       S            S           2 S / P
//   zero2       S            S / P       2 S / P
//   fsdp        S / P        S / P       2 S / P
// and of fsdp the units that run, and the one that comes next, whole. zero1 and zero2 are stages 1 and 2 of Rajbhandari
// et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020; fsdp is its stage 3, with
// groups of parameters as in Zhao et al., "PyTorch FSDP", VLDB 2023.
//
// Pure: no I/O, no torch.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dtrain/errors.h"

namespace dtrain {

enum class StrategyKind { ddp, zero1, zero2, fsdp };

// The type of numbers in which something is kept, computed or sent. `same`: that of the parameters.
enum class Precision { same, float32, bfloat16, float16 };

struct Strategy {
  StrategyKind kind = StrategyKind::ddp;

  // zero1, zero2 and fsdp. What the module computes in ("param"), and what gradients are reduced in ("reduce"; `same`:
  // as "param"). The parameters that the optimizer updates keep their own type. Floating tensors that the model or a
  // unit gets become "param" ones; what the model returns becomes "output" ones (`same`: is left as it is).
  Precision param = Precision::same;
  Precision reduce = Precision::same;
  Precision output = Precision::same;
  // fsdp. False: a unit's parameters stay whole after its forward, until its backward is done: more memory, and one
  // all-gather less.
  bool reshard_after_forward = true;
  // fsdp. Between forward and backward a unit is shared by sets of so many ranks, one after the other, and no longer by
  // all: they should be on one host. It divides the ranks that share one copy of the model. 0: by all. In JSON it is
  // the value of "reshard_after_forward".
  int reshard_size = 0;
  // fsdp. So many units are gathered before the program comes to them. 0: none.
  int prefetch = 1;
  // fsdp. The units that are gathered ahead have at most so many bytes together, in the type that the module computes
  // in. One that would be more is gathered when those before it are in use, or when the program comes to it.
  std::int64_t prefetch_bytes = std::int64_t{1} << 32;
  // fsdp. A unit with fewer elements than this is no unit of its own: its parameters belong to the unit around it.
  std::int64_t unit_elements = 0;
  // fsdp. A parameter with at most so many elements belongs to no unit. It is whole from the beginning of the model's
  // forward to the end of backward, and its optimizer's state is sharded as that of others. 0: there are none.
  std::int64_t whole_elements = 0;
  // fsdp. Names of unit classes, as DTRAIN_UNIT has them ("Block"): others are no units of their own. Empty: all are.
  std::vector<std::string> units{};
  // fsdp. The ranks of a host keep the whole parameters once, in memory that they share, if the model is on the CPU. An
  // all-gather is then a barrier at most, and the host's memory for parameters does not grow with its ranks. Empty:
  // yes, where all ranks that share a copy of the model are on one host. True: on several hosts too, with as many ranks
  // on each: a host then keeps all parameters all the time, and each rank sends its part to the other hosts once for
  // each step. ConfigError where that is not possible, as on GPUs.
  std::optional<bool> one_copy{};
  // zero1, zero2 and fsdp. Ranks that share one copy of the model. The ranks are divided into sets of this size, one
  // after the other, and gradients are averaged over the sets too (hybrid sharding). 0: all ranks.
  int shard_size = 0;
  // zero1, zero2 and fsdp. The same parameters to the last bit for 1, 2, 4, 8, ... ranks, if the steps are the same: a
  // step is a number of micro-batches, a power of two, of which rank 0 has the first ones, rank 1 the next, and so on.
  // Each has a backward of its own, and all but a rank's last are under no_sync(). Their gradients are added up in the
  // order of a balanced binary tree over all micro-batches, and clip_grad_norm() adds up without rounding. Optimizers
  // that work element by element keep the bits, and so does Muon with owned matrices (placement.h). Some of torch's
  // operators add up in an order that depends on the number of threads. So Parallel calls torch::set_num_threads(1),
  // for the whole process, before it builds the model: a rank computes on one core. A program that wants more sets
  // another number after that, the same on all ranks and in all runs.
  bool deterministic = false;
  // ddp, zero1 and zero2: bytes of gradients that are reduced together.
  std::int64_t bucket_bytes = 25 * 1024 * 1024;
  // A folder of a disk for the state of the optimizer that Parallel::optimizer() makes: state_folder in optimizer.h. A
  // program that steps another optimizer gets an error.
  std::string state_folder{};
  // zero1, zero2 and fsdp. The parts of the parameters that a rank's optimizer updates, their gradients and the
  // optimizer's state are in the CPU's memory, and the CPU updates them. A model on a GPU then takes the GPU's memory
  // for what it computes with alone. For a model on a CPU it changes nothing.
  bool cpu_offload = false;
  // ddp. A parameter may have no part in a forward. The others allow that at no cost.
  bool find_unused_parameters = false;

  friend bool operator==(const Strategy&, const Strategy&) = default;
};

// The word for it in DTRAIN_STRATEGY.
std::string name_of(StrategyKind kind);

// Reads what DTRAIN_STRATEGY has: a word, or JSON. Throws ConfigError, which names the key, if it makes no sense. Of a
// config of DeepSpeed, Accelerate or Ludwig this is the part about sharding; training_config.h has the rest.
Strategy parse_strategy(const std::string& text);

}  // namespace dtrain
