#pragma once
// Checkpoints: what training needs to go on, in files that Python's safetensors reads. Each rank writes its own part of
// each tensor into the final files, and reads the part that it needs, whatever number of ranks wrote it.
//
//   dtrain::Checkpoints checkpoints(session.world(), "runs/a", {.keep_last = 3});
//   checkpoints.save(state);            // runs/a/step-00001200/
//   if (checkpoints.latest()) checkpoints.load(state);
//
// docs/training/checkpoints.md is the guide, and describes the files.
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dtrain/group.h"

namespace dtrain {

// One tensor of a checkpoint, and this rank's part of the tensor.
struct StatePiece {
  std::string name;                   // UTF-8
  at::ScalarType dtype = at::kFloat;  // double, float, half, bfloat16, int64, int32, int16, int8, uint8 or bool
  std::vector<std::int64_t> shape;    // of the whole tensor; empty: a scalar
  // The first element of the part, counted in the row-major order of the whole tensor.
  std::int64_t begin = 0;
  // The elements of the part: a tensor of one dimension, with the type `dtype`, on any device. It may be empty or
  // undefined. save() reads the values. load() writes them.
  at::Tensor values{};
  // Copy::in_background: the values may change earlier than those of other pieces, so they are copied before the call
  // returns.
  bool changes = false;
  // load(): it is no error that the files have another type, or have no tensor of that name (the values stay then).
  bool convert = false, optional = false;
};

// All ranks give the same lists of names, types and shapes, in the same order. In save(), the parts of the ranks
// together are the whole of each tensor. Two ranks may both give the same part, if the values are the same.
struct CheckpointState {
  std::int64_t step = 0;  // 0 or more
  std::vector<StatePiece> model;
  std::vector<StatePiece> optimizer;  // by convention "<parameter>.<state>", as "fc1.weight.exp_avg"
  // JSON of the program: random numbers, the place in the data, schedules. That of the group's rank 0 is saved. All
  // ranks get it back. Empty: none. At most 63 levels deep.
  std::string extra{};
};

struct CheckpointOptions {
  // After a save, the steps that are older than the newest `keep_last` complete ones are removed. 0: none is removed.
  // Their names are gone when the save is over; a thread frees the disk, until the next save or the destructor at the
  // latest.
  int keep_last = 0;
  // A file gets no more than this many bytes of tensors, if it has more than one tensor. 0: no limit.
  std::int64_t max_file_bytes = 0;
  // Wait until the disk has the files. Without it, a crash of the machine can lose the checkpoint or damage it. A crash
  // of the program cannot.
  bool sync = true;
};

struct LoadOptions {
  // A tensor may have another type in the file: its values are converted.
  bool convert = false;
  // The files may have tensors that are not in the lists. They are not read.
  bool allow_others = false;
  // Compare each tensor with its CRC-32C. A tensor costs no further reading if the ranks' parts are the whole of it.
  // Files without dtrain.json have no sums. Without `verify`, headers and sizes are checked: the load is about a fifth
  // faster where the files are in memory already.
  bool verify = true;
  // load_safetensors(), Parallel::load_weights() and load_state(): the names in the files begin with this, as "model."
  // where Python has saved {"model": ..., "optim": ...}. Other names are not asked for.
  std::string prefix{};
  // If a checkpoint is damaged, load the one before it. Loaded::skipped says so.
  bool fall_back = true;
};

struct Loaded {
  std::int64_t step = 0;
  std::string extra;   // as compact JSON
  int world_size = 0;  // of the ranks that saved it
  // A line for each newer checkpoint that could not be loaded, with the reason.
  std::vector<std::string> skipped;
  bool from_memory = false;  // what the launcher has kept (kept_state.h), and not a file
};

// A checkpoint cannot be saved or loaded. All ranks of the group throw the same error, and the group goes on working.
// what() names the rank and the file.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace background {
class ValueCopy;
}

// When save_async() copies the values.
enum class Copy {
  before_return,  // they may change as soon as the call has returned
  // A thread copies them: they may be read, and must not change before PendingCopy::wait() has returned. Values that
  // are not on a CPU, and pieces that say `changes`, are copied before the call returns.
  in_background
};

// What Copy::in_background left to be done. It keeps the tensors alive until wait(). An object that no save made is
// complete, and so is that of a save that failed at once. One thread at a time uses it. It may outlive the Checkpoints
// that made it.
class PendingCopy {
 public:
  PendingCopy() = default;
  explicit PendingCopy(std::shared_ptr<background::ValueCopy> copy) : copy_(std::move(copy)) {}
  bool is_complete() const noexcept;
  // Copies what is left, together with the thread, and returns when all is copied. No collective.
  void wait() noexcept;

 private:
  std::shared_ptr<background::ValueCopy> copy_;
};

// The checkpoints of one folder, which all hosts of the group share. All calls are collectives of the group, from one
// thread at a time, but the constructor and the destructor. They throw CheckpointError, or CollectiveError if a rank
// dies. The group makes a few small collectives for each call: the tensors themselves are not sent.
//
// A checkpoint appears in the folder when it is complete, under its final name. Whenever the program or a rank of it is
// killed, the last complete checkpoint stays. The next save removes what is left of the dead attempt. Only one job
// saves into a folder at a time.
class Checkpoints {
 public:
  Checkpoints(Group group, std::string folder, CheckpointOptions options = {});
  // Waits for the background thread. A save_async() without wait() or poll() is lost.
  ~Checkpoints();
  Checkpoints(Checkpoints&&) noexcept;
  Checkpoints& operator=(Checkpoints&&) noexcept;

  // Returns when the checkpoint is complete. An earlier checkpoint of this step is replaced.
  void save(const CheckpointState& state);

  // Copies the values, and returns while a thread of this rank writes them; with Copy::in_background that thread
  // copies them first. Parallel::save_async() (parallel.h) knows when the values change. The memory of the copy is kept
  // for the next save. The thread writes with the lowest priority (nice 19), so that it leaves the cores to training.
  //
  // The checkpoint is complete when poll() or wait() says so, or the next save() or save_async(), which wait for it.
  // If it failed, that call throws the error.
  PendingCopy save_async(const CheckpointState& state, Copy copy = Copy::before_return);
  // True if no save is in flight any more. Does not wait for the disk. Called after each step, it costs an exchange of
  // a few bytes while a save is in flight, and the next save finds nothing to wait for.
  bool poll();
  // Waits for the save in flight, if there is one.
  void wait();

  // The newest complete checkpoint. Nothing if the folder does not exist, or has no step (what a killed save leaves is
  // none). It is an error if the folder cannot be read, or if it has steps and all are damaged.
  std::optional<std::int64_t> latest();
  // The same, but nothing if all steps are damaged: for a program that can go on from elsewhere.
  std::optional<std::int64_t> latest_undamaged();

  // Fills the values of the state, and its step and extra. load(state) takes the newest checkpoint. After an error the
  // values are undefined. Throws CheckpointError if there is no checkpoint.
  Loaded load(CheckpointState& state, const LoadOptions& options = {});
  Loaded load_step(std::int64_t step, CheckpointState& state, const LoadOptions& options = {});

  struct State;  // opaque

 private:
  std::unique_ptr<State> state_;
};

// Collective of the group. Fills the values of the pieces from a safetensors file, or from a folder with
// model.safetensors or model.safetensors.index.json, as Hugging Face's libraries write them, or with the files of ranks
// that torch.distributed.checkpoint writes (HuggingFaceStorageWriter, with and without consolidation; tensors that are
// divided by rows, as FSDP2's are). `stems`: the names that come before .safetensors in a folder; the first one that is
// there counts. Throws CheckpointError.
void load_safetensors(const Group& group, const std::string& path, std::vector<StatePiece>& pieces,
                      const LoadOptions& options = {}, const std::vector<std::string>& stems = {"model"});

// The next three are no collectives. They are for programs without a session, as those of `dtrain predict`.
//
// As above, by this process alone. The sums of a step's folder (dtrain.json) are compared, if options.verify.
void load_safetensors(const std::string& path, std::vector<StatePiece>& pieces, const LoadOptions& options = {},
                      const std::vector<std::string>& stems = {"model"});
// Fills the parameters and the buffers of a module, on any device, by their names in it. Throws CheckpointError; the
// values are undefined then.
void load_weights(torch::nn::Module& module, const std::string& path, const LoadOptions& options = {});
// The newest complete step in a folder of Checkpoints, "runs/a/step-00001200". Nothing: there is none. Throws
// CheckpointError: there are steps, and all are damaged.
std::optional<std::string> newest_checkpoint(const std::string& folder);

}  // namespace dtrain
