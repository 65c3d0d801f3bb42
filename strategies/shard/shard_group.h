#pragma once
// Parameters that are sharded together: their layout, their memory, their gradients, and the collectives between them.
// What happens when is decided elsewhere (unshard_core.h).
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dtrain/group.h"
#include "dtrain/placement.h"
#include "dtrain/shards.h"
#include "strategies/shard/group_layout.h"
#include "strategies/shard/row_pool.h"
#include "strategies/shard/tree_sum.h"
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
  Group near;      // those of `sharing` that share a group between forward and backward; empty: all
  Group replicas;  // those of other sets that have the same part; this rank alone, or an empty group: there are none
  at::Device device = at::kCPU;
  std::optional<at::ScalarType> compute{}, reduce{};  // types of the whole parameters, and of gradients on their way
  bool whole_stays = false;                           // the whole parameters are kept by each rank (zero1, zero2)
  bool gradients_stay = false;                        // the whole gradients too (zero1)
  bool deterministic = false;                         // gradients are added up in the order of a tree
  bool parts_on_cpu = false;  // the parts, with their gradients, are in the CPU's memory, wherever the model is
  std::shared_ptr<RowPool> rows = std::make_shared<RowPool>();  // of all groups
  // One copy: the ranks of `host`, those of `sharing` on this rank's host, keep the whole parameters once. `across`:
  // the ranks of `sharing` with this rank's number in `host`, one on each host; empty: there is one host. `host` is
  // empty: each rank has memory of its own.
  Group host{}, across{};

  bool one_copy() const { return host.size() > 0; }
};

class ShardGroup {
 public:
  // Collective of settings.everyone, which gets the first rank's values. The parameters are of one type; throws
  // ConfigError if not. Their tensors stay and get other memory, on settings.device. `loads`: see lay_out().
  ShardGroup(const ShardSettings& settings, std::string name, const std::vector<NamedTensor>& parameters,
             std::vector<std::int64_t>& loads);
  ~ShardGroup();
  ShardGroup(const ShardGroup&) = delete;
  ShardGroup& operator=(const ShardGroup&) = delete;

  // The model is built: which parameters need a gradient is known now, and their names in the whole model are. `came`
  // is called by autograd for each gradient, after `before`. Throws ConfigError if a parameter has no name.
  using Names = std::unordered_map<const c10::TensorImpl*, std::string>;
  void settle(const Names& names, std::function<void()> before, std::function<void()> came);
  // Throws ConfigError if the program has changed a parameter in a way that cannot be followed.
  void require_as_settled() const;

  bool trains() const;
  const std::string& name() const { return name_; }
  at::Device device() const { return part_.device(); }

  // Collectives of `sharing`, in pairs. In between, other groups may begin. What runs on a device's stream is ordered
  // by the current stream of each call (plan_streams.h): begin_gather() and join_gather() have the same one,
  // begin_reduce() and end_reduce() too, and the others the program's.
  void begin_gather();
  void join_gather();  // the current stream waits for it, or on a CPU the caller
  void end_gather();   // after that the parameters may be read
  void free();
  // Sharded among settings.near, from which begin_gather() then takes it.
  void share_near();
  // Of the gradients that came since the last reduction, and zeros for those that did not come. After end_reduce() the
  // average is in gradient(), added to what was there since forget_gradients(). drop_row(): nobody reads the row any
  // more that was reduced.
  void begin_reduce();
  void end_reduce();
  void drop_row();
  // Before the parts are written: what was begun reads them no more.
  void end_reads() const;

  // A gradient came; called by autograd.
  void take_gradient(std::size_t member);
  // A backward begins. From then on each parameter has one gradient to come.
  void expect_gradients();
  // With `deterministic`: a backward, with the gradients of one micro-batch, has ended. Throws ConfigError if there are
  // gradients of a reduction before it.
  void end_micro_batch();
  bool has_all_gradients() const { return missing_ == 0; }
  void forget_gradients();
  // Bytes that a gather takes.
  std::int64_t gathered_bytes() const {
    return stays_ ? 0 : layout_.elements * static_cast<std::int64_t>(c10::elementSize(compute_));
  }

  // What this rank's optimizer updates.
  // With an empty shard for each parameter of which this rank has nothing. The values have their gradients.
  const std::vector<ShardRun>& runs() const { return runs_; }
  // This rank's part of each parameter, frozen or not, in their order.
  std::vector<Shard> shards() const;
  // The gradient of all of this rank's part, or an undefined tensor. It stays in the type in which it was reduced, if
  // that is narrower than the part's, until another one is added to it.
  at::Tensor gradient();
  // A narrow gradient is not changed: it counts times gradient_scale() from then on, if that is defined.
  void scale_gradient(const at::Tensor& factor);
  const at::Tensor& gradient_scale() const { return gradient_scale_; }
  // The gradient in the type of the part, with its scale: once, or from now on always.
  void widen_gradient();
  void keep_gradients_wide();

  // The optimizer has written this rank's part: bring it to the other ranks where they keep whole parameters. With one
  // copy all ranks must meet before and after. A backward that was left over from before throws, as after any change
  // in place.
  void publish();
  // The type in which the module computes, if it is another one than that of the parameters.
  std::optional<at::ScalarType> computes_in() const {
    return compute_ == type_ ? std::nullopt : std::optional(compute_);
  }

 private:
  WholeMemory make_whole() const;
  bool is_shared() const { return whole_.is_shared(); }
  void free_whole();
  void fill(const std::vector<NamedTensor>& parameters);
  at::Tensor make_part(const at::Tensor& values) const;
  Shard shard_of(std::size_t member) const;
  void make_runs();
  at::Tensor own(const at::Tensor& row) const { return row.narrow(0, begin_, size_); }
  std::vector<at::Tensor> parts_of(const at::Tensor& row) const;
  std::vector<at::Tensor> near_parts_of(const at::Tensor& row) const;
  std::vector<at::Tensor> parts_across(const at::Tensor& row) const;
  // Gradients.
  void finish_reduce();
  void give_gradients();
  void heed_resets();
  void drop_gradient();
  void leave_row();
  at::Tensor& unreduced();
  at::Tensor gradient_of(const at::Tensor& row, std::size_t member) const;
  void clear_missing();
  at::Tensor take_unreduced();
  at::Tensor average_in_order(const at::Tensor& pieces) const;

  ShardSettings settings_;
  std::string name_;
  GroupLayout layout_;
  at::ScalarType type_, compute_, reduce_;  // of part_, of the whole parameters, of gradients on their way
  at::ScalarType kept_;                     // of the gradient, before another is added
  std::int64_t begin_, size_;               // this rank's part of the layout
  WholeMemory whole_;
  bool stays_;  // the whole parameters are always there
  at::Tensor part_;
  at::Tensor near_part_;  // defined while it is shared near
  std::vector<std::vector<std::int64_t>> shapes_;
  std::vector<ShardedParameter> members_;
  c10::intrusive_ptr<c10d::Work> gathering_, reducing_;
  // Gradients.
  at::Tensor unreduced_;   // whole, undefined until the first came
  at::Tensor on_its_way_;  // what is being reduced, if it is not unreduced_
  TreeSum tree_;           // of micro-batches, if it is deterministic
  std::function<void()> before_gradient_, gradient_came_;
  std::vector<bool> came_;         // since the last reduction, for each member
  std::vector<bool> arrived_;      // in this backward
  std::size_t missing_ = 0;        // in this backward, of those that need a gradient
  at::Tensor reduced_, gradient_;  // this rank's part: of the last reduction, and of all
  at::Tensor gradient_scale_;
  bool has_gradient_ = false;
  bool used_ = false;  // the gradient, by a step
  std::vector<ShardRun> runs_;
};

}  // namespace dtrain
