#pragma once
// What Checkpoints needs of torch and of the group: types, values, and words that the ranks exchange.
#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "dtrain/checkpoint.h"
#include "strategies/checkpoint/load_plan.h"
#include "strategies/checkpoint/step_folder.h"
#include "strategies/collectives/texts.h"
#include "strategies/torch/compat.h"

namespace dtrain::checkpoint {

// One save, from its begin to its commit.
struct Attempt {
  // The model, or the optimizer.
  struct Half {
    Layout layout;
    std::vector<Part> parts;
    std::vector<PartSum> sums;
  };

  std::int64_t step = 0;
  std::string extra;
  std::string path;  // of the folder
  std::vector<Half> halves;
  std::vector<at::Tensor> values;  // that the parts point to
  // A save has two stages: all ranks write, then rank 0 finishes.
  bool finishing = false;
  std::string failure;             // of the stage, on this rank
  std::atomic<bool> done = false;  // with the stage
  std::thread thread;

  ~Attempt() { join(); }
  void join() {
    if (thread.joinable()) thread.join();
  }
  std::string what() const { return fmt::format("the checkpoint of step {} cannot be saved", step); }
  // The stage, by the caller or by a thread. False: there is no thread, and that is the failure.
  void carry_out(const std::function<void()>& body);
  bool begin(std::function<void()> body);
};

// Removes folders by a thread: a gigabyte takes a disk 0.1 to 0.2 s, in which training can go on.
class Removal {
 public:
  ~Removal() { join(); }
  void begin(std::vector<std::string> folders);
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

struct TypePair {
  at::ScalarType torch;
  std::string_view stored;
};
inline constexpr TypePair kTypePairs[] = {
    {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kHalf, "F16"}, {at::kBFloat16, "BF16"}, {at::kLong, "I64"},
    {at::kInt, "I32"},    {at::kShort, "I16"}, {at::kChar, "I8"},  {at::kByte, "U8"},       {at::kBool, "BOOL"},
};

inline at::ScalarType torch_type(const StoredType& type) {
  for (const TypePair& pair : kTypePairs)
    if (pair.stored == type.name) return pair.torch;
  throw Refused(fmt::format("the type {} is none that dtrain loads", type.name));
}

// The tensor of a piece. Throws Refused where the piece makes no sense.
inline Wanted wanted_of(const StatePiece& piece) {
  Wanted wanted;
  wanted.tensor = {piece.name, nullptr, piece.shape};
  wanted.convert = piece.convert;
  wanted.optional = piece.optional;
  for (const TypePair& pair : kTypePairs)
    if (pair.torch == piece.dtype) wanted.tensor.type = stored_type(pair.stored);
  const char* type = c10::toString(piece.dtype);
  if (wanted.tensor.type == nullptr)
    throw Refused(fmt::format("{} has the type {}, which checkpoints do not have", shown(piece.name), type));
  if (piece.begin < 0) throw Refused(fmt::format("the part of {} begins below 0", shown(piece.name)));
  wanted.begin = static_cast<std::uint64_t>(piece.begin);
  wanted.count = piece.values.defined() ? static_cast<std::uint64_t>(piece.values.numel()) : 0;
  if (wanted.count != 0 && (piece.values.dim() != 1 || piece.values.scalar_type() != piece.dtype))
    throw Refused(
        fmt::format("the values of {} are not a tensor of one dimension and of the type {}", shown(piece.name), type));
  check_part(wanted.tensor, wanted.begin, wanted.count);
  return wanted;
}

// What one rank says to the others at a time: its failure, or a text.
struct Said {
  std::string failure{};  // empty: none
  std::string text{};
  bool fits = true;  // false: the failure is that the program asks for something else than is there
};

// An error that another checkpoint of the same job would give too.
struct DoesNotFit : CheckpointError {
  using CheckpointError::CheckpointError;
};

// Collective. What all ranks say; throws CheckpointError on each of them where one has failed: `what`, the rank, why.
std::vector<std::string> exchange(const Group& group, const std::string& what, const Said& own);

// Runs it, and catches what it throws: the failure.
template <class Body>
std::string failure_of(const Body& body) {
  try {
    body();
    return {};
  } catch (const std::exception& error) {
    const std::string text = short_reason(error);
    return text.empty() ? "it failed without a reason" : text;
  }
}

}  // namespace dtrain::checkpoint

struct dtrain::Checkpoints::State {
  Group group;
  std::string folder;
  CheckpointOptions options;
  at::Tensor staging{};           // for copies of the values, while they are written
  checkpoint::Removal removal{};  // of what keep_last ends; over before the next attempt begins
  std::unique_ptr<checkpoint::Attempt> in_flight{};
};
