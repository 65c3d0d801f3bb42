#pragma once
// Which bytes of which file a rank needs. Whatever ranks wrote them: a range of a tensor is a range of a file. Pure.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "strategies/checkpoint/layout_plan.h"

namespace dtrain::checkpoint {

struct StoredTensor {
  HeaderTensor tensor;
  std::size_t file = 0;  // its place in StoredTensors::files
};

// What some files hold.
struct StoredTensors {
  std::vector<std::string> files;
  std::map<std::string, StoredTensor> by_name;

  // Adds a file. Throws Refused: one of its tensors is in an earlier file.
  void add(const std::string& file, std::vector<HeaderTensor> tensors);
};

// A part of a tensor, in elements.
struct Wanted {
  TensorSpec tensor;
  std::uint64_t begin = 0, count = 0;
};

struct PlannedRead {
  std::size_t wanted = 0;  // its place in the list
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
