#pragma once
// Which bytes of which file a rank needs. Whatever ranks wrote them: a range of a tensor is a range of a file. Pure.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strategies/checkpoint/layout_plan.h"

namespace dtrain::checkpoint {

// What a file has of a tensor.
struct StoredPart {
  std::size_t file = 0;                // its place in StoredTensors::files
  std::uint64_t at = 0;                // of the file: its first byte
  std::uint64_t begin = 0, count = 0;  // elements
};

struct StoredTensor {
  TensorSpec tensor;              // the whole
  std::vector<StoredPart> parts;  // without empty ones
};

// What some files hold.
struct StoredTensors {
  std::vector<std::string> files;
  std::map<std::string, StoredTensor> by_name;

  // Adds a file. Throws Refused: one of its tensors is in an earlier file.
  void add(const std::string& file, const std::vector<HeaderTensor>& tensors);
  // Adds a file with the rows of tensors that a rank had, as torch.distributed.checkpoint writes them.
  // Throws Refused: a tensor is not divided by rows.
  void add_rows(const std::string& file, const std::vector<HeaderTensor>& tensors);
  // After the last add_rows(). Throws Refused: the parts of a tensor overlap, or leave a gap.
  void check_whole();
  // Keeps the tensors whose names begin with this, without it.
  void strip(const std::string& prefix);
};

// A part of a tensor, in elements.
struct Wanted {
  TensorSpec tensor;
  std::uint64_t begin = 0, count = 0;
  bool convert = false;   // another element type is no error
  bool optional = false;  // nor is it that the files lack the tensor
};

struct PlannedRead {
  std::size_t wanted = 0;              // its place in the list
  std::uint64_t first = 0, count = 0;  // elements of the wanted part
  std::size_t file = 0;
  std::uint64_t begin = 0, bytes = 0;  // of the file
  const StoredType* stored = nullptr;
};

struct LoadRules {
  bool convert = false;       // another element type is no error
  bool allow_others = false;  // nor is a stored tensor that nobody wants
};

// The part lies in the tensor. Throws Refused.
void check_part(const TensorSpec& tensor, std::uint64_t begin, std::uint64_t count);

// In the order of the files, without empty parts. Throws Refused: names first tensors that are missing, not wanted, or
// of another shape or type.
std::vector<PlannedRead> plan_reads(const StoredTensors& stored, const std::vector<Wanted>& wanted,
                                    const LoadRules& rules);

}  // namespace dtrain::checkpoint
