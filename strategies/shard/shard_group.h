#pragma once
// Parameters that are sharded together: their layout, their memory, their gradients, and the collectives between them.
// What happens when is decided elsewhere (unshard_core.h).
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dtrain/group.h"
#include "dtrain/placement.h"
#include "dtrain/shards.h"
#include "strategies/shard/group_layout.h"
#include "strategies/shard/whole_memory.h"
#include "strategies/torch/compat.h"

namespace dtrain {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  Placement placement{};
};

struct ShardSettings {
  Group everyone;  // all ranks that train the model
  Group sharing;   // those that have one copy of it between them
  Group replicas;  // those of other sets that have the same part; this rank alone, or an empty group: there are none
  std::optional<at::ScalarType> compute{}, reduce{};  // types of the whole parameters, and of gradients on their way
  bool whole_stays = false;                           // the whole parameters are kept by each rank (zero1, zero2)
  bool gradients_stay = false;                        // the whole gradients too (zero1)
  bool one_copy = false;  // the ranks of `sharing` are on one host, and keep the whole parameters once
};

class ShardGroup {
 public:
  // Collective of settings.everyone, which gets the first rank's values. The parameters are of one type and on one
  // device; throws ConfigError if not. Their tensors stay and get other memory. `loads`: see lay_out().
  ShardGroup(const ShardSettings& settings, std::string name, const std::vector<NamedTensor>& parameters,
             std::vector<std::int64_t>& loads);
  ~ShardGroup();
  ShardGroup(const ShardGroup&) = delete;
  ShardGroup& operator=(const ShardGroup&) = delete;

  bool trains() const;
  const std::string& name() const { return name_; }

  // Collectives of `sharing`, in pairs. In between, other groups may begin.
  void begin_gather();
  void end_gather();
  void free();
  // Of the gradients that came since the last reduction, and zeros for those that did not come. After end_reduce() the
  // average is in gradients(), added to what was there since forget_gradients().
  void begin_reduce();
  void end_reduce();

  // A gradient came; called by autograd. What on_gradient() was given is called before and after it.
  void take_gradient(std::size_t member);
  void on_gradient(std::function<void()> before, std::function<void()> after) {
    before_gradient_ = std::move(before);
    after_gradient_ = std::move(after);
  }
  // A backward begins. From then on each parameter has one gradient to come.
  void expect_gradients();
  bool has_all_gradients() const { return missing_ == 0; }
  void forget_gradients();

  // What this rank's optimizer updates.
  // With an empty shard for each parameter of which this rank has nothing. The values have their gradients.
  const std::vector<ShardRun>& runs() const { return runs_; }
  // This rank's part of each parameter, frozen or not, in their order.
  std::vector<Shard> shards() const;
  // All of this rank's part: its values, and its gradient or an undefined tensor.
  const at::Tensor& part() const { return part_; }
  at::Tensor gradient() const { return has_gradient_ ? gradient_ : at::Tensor(); }

  // The optimizer has written part(): bring it to the other ranks where they keep whole parameters. With one copy all
  // ranks must meet before and after.
  void publish();
  bool is_shared() const { return whole_.is_shared(); }

  // The names that the parameters have in the whole model. What is not among them keeps its name.
  using Names = std::unordered_map<const c10::TensorImpl*, std::string>;
  void rename(const Names& names);

 private:
  WholeMemory make_whole(const ShardSettings& settings, const at::TensorOptions& options) const;
  void fill(const std::vector<NamedTensor>& parameters);
  void hook_gradients();
  Shard shard_of(std::size_t member) const;
  void make_runs();
  void give_gradients();
  at::Tensor own(const at::Tensor& row) const { return row.narrow(0, begin_, size_); }
  std::vector<at::Tensor> parts_of(const at::Tensor& row) const;
  at::Tensor& unreduced();
  at::Tensor gradient_of(const at::Tensor& row, std::size_t member) const;
  void clear_missing();

  ShardSettings settings_;
  std::string name_;
  GroupLayout layout_;
  at::ScalarType type_, compute_, reduce_;  // of part(), of the whole parameters, of gradients on their way
  std::int64_t begin_, size_;               // this rank's part of the layout
  WholeMemory whole_;
  bool stays_;  // the whole parameters are always there
  at::Tensor part_;
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<ShardedParameter> members_;
  c10::intrusive_ptr<c10d::Work> gathering_, reducing_;
  // Gradients.
  at::Tensor unreduced_;  // whole, undefined until the first came
  std::function<void()> before_gradient_, after_gradient_;
  std::vector<bool> came_;         // since the last reduction, for each member
  std::vector<bool> arrived_;      // in this backward
  std::size_t missing_ = 0;        // in this backward, of those that need a gradient
  at::Tensor reduced_, gradient_;  // this rank's part: of the last reduction, and of all
  bool has_gradient_ = false;
  std::vector<ShardRun> runs_;
};

}  // namespace dtrain
