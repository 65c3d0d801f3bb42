#pragma once
// The memory of a group's whole parameters, which are views of it. It is there only while the program uses them: the
// tensors and what autograd has saved of them stay, and point to nothing in between.
#include <memory>
#include <string>
#include <vector>

#include "dtrain/group.h"
#include "strategies/comm/base/shared_memory.h"
#include "strategies/torch/compat.h"

namespace dtrain {

class WholeMemory {
 public:
  // A row of `elements`, not initialised. It is there.
  WholeMemory(std::int64_t elements, const at::TensorOptions& options);
  // Collective: one row for all ranks of the group, which are on one host. It is always there. Throws ConfigError on
  // every rank if one of them cannot have it.
  static WholeMemory of_host(const Group& group, std::int64_t elements, const at::TensorOptions& options);

  // All of it; use it while it is there.
  const at::Tensor& row() const { return row_; }
  bool is_shared() const { return shared_ != nullptr; }

  void take();
  // `reason`: what a program is told that uses it then, such as a backward that was not announced.
  void give_back(const std::string& reason);

 private:
  explicit WholeMemory(at::Tensor row, std::shared_ptr<SharedMemory> shared = nullptr)
      : row_(std::move(row)), shared_(std::move(shared)) {}
  at::Tensor row_;
  std::shared_ptr<SharedMemory> shared_;
};

// A parameter whose values are a part of such memory. Whoever reads it while it is sharded gets an error with its name.
class ShardedParameter {
 public:
  // `view`: a tensor of the parameter's shape in the memory, which has its values. It may have another type.
  ShardedParameter(std::string name, at::Tensor parameter, const at::Tensor& view);

  void set_whole(bool whole);
  const std::string& name() const { return name_; }
  // `advice`: what to do instead of reading it while it is sharded.
  void set_name(const std::string& name, const std::string& advice);
  // False if the program gave the parameter other memory, or asked for a gradient or for none.
  bool is_as_it_was() const;
  bool trains() const { return trains_; }
  // What it is now is how it stays.
  void settle();
  at::Tensor& tensor() { return parameter_; }
  const at::Tensor& tensor() const { return parameter_; }

 private:
  bool has_our_memory() const;
  std::string name_;
  at::Tensor parameter_;
  c10::Storage whole_, sharded_;
  bool trains_ = false;
};

}  // namespace dtrain
