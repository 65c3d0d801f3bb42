// The gradients of a ShardGroup: they come from autograd one by one, and are reduced together.
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "strategies/collectives/collectives.h"
#include "strategies/shard/shard_group.h"

namespace dtrain {

at::Tensor& ShardGroup::unreduced() {
  if (!unreduced_.defined()) {
    const auto options = at::TensorOptions().dtype(reduce_).device(settings_.device);
    unreduced_ = settings_.rows->take(layout_.elements, reduce_, [&] {
      return empty_shared(settings_.sharing.process_group(), layout_.elements, options);
    });
  }
  return unreduced_;
}

at::Tensor ShardGroup::gradient_of(const at::Tensor& row, std::size_t member) const {
  const at::Tensor& parameter = members_[member].tensor();
  return row.narrow(0, layout_.at[member], parameter.numel()).view(shapes_[member]);
}

void ShardGroup::take_gradient(std::size_t member) {
  const at::NoGradGuard no_grad;
  at::Tensor& gradient = members_[member].tensor().mutable_grad();
  if (!gradient.defined()) return;
  if (before_gradient_) before_gradient_();
  if (gradient.layout() != at::kStrided) {
    throw ConfigError("dtrain: gradients that are sharded are dense, and that of '" + members_[member].name() +
                      "' is sparse; make the embedding without sparse(true), or let the parameter need no gradient");
  }
  leave_row();
  at::Tensor into = gradient_of(unreduced(), member);
  if (came_[member]) {
    into.add_(gradient);
  } else {
    into.copy_(gradient);
    came_[member] = true;
  }
  if (!arrived_[member]) --missing_;
  arrived_[member] = true;
  gradient.reset();
  if (gradient_came_) gradient_came_();
}

// The row is about to be written. With gradients_stay the last reduction reads it, and the sum so far may lie in it.
void ShardGroup::leave_row() {
  if (!settings_.gradients_stay) return;
  finish_reduce();
  widen_gradient();
  if (!has_gradient_ || !gradient_.is_alias_of(unreduced_)) return;
  gradient_ = gradient_.clone();
  give_gradients();
}

// What no gradient came for, and what lies behind the last parameter.
void ShardGroup::clear_missing() {
  std::int64_t end = 0;
  for (const std::size_t each : layout_.order) {
    if (!came_[each]) gradient_of(unreduced(), each).zero_();
    end = std::max(end, layout_.at[each] + members_[each].tensor().numel());
  }
  unreduced().narrow(0, end, layout_.elements - end).zero_();
}

// All gradients since the last reduction.
at::Tensor ShardGroup::take_unreduced() {
  if (settings_.deterministic) return tree_.take();
  unreduced();
  leave_row();
  clear_missing();
  came_.assign(members_.size(), false);
  return settings_.gradients_stay ? unreduced_ : std::exchange(unreduced_, {});
}

void ShardGroup::end_micro_batch() {
  if (!trains()) return;
  const at::NoGradGuard no_grad;
  finish_reduce();
  heed_resets();
  if (has_gradient_) {
    throw ConfigError(
        "dtrain: deterministic gradients cannot be added to those that were reduced before. Put all backwards of a "
        "step but the last under no_sync(), and call zero_grad() after the step");
  }
  clear_missing();
  came_.assign(members_.size(), false);
  tree_.add(std::exchange(unreduced_, {}), [this](at::Tensor row) { settings_.rows->give_back(std::move(row)); });
}

void ShardGroup::begin_reduce() {
  const at::NoGradGuard no_grad;
  finish_reduce();  // an earlier one of this backward
  heed_resets();
  if (settings_.deterministic && !tree_.is_complete()) {
    throw ConfigError(
        "dtrain: deterministic gradients need steps of 1, 2, 4, 8, ... micro-batches for each rank: so many backwards, "
        "all but the last under no_sync()");
  }
  at::Tensor row = take_unreduced();
  if (!settings_.gradients_stay) on_its_way_ = row;
  if (settings_.deterministic) {
    reduced_ = at::empty({settings_.sharing.size(), size_}, row.options());
    std::vector<at::Tensor> outputs = reduced_.unbind(0), inputs = parts_of(row);
    reducing_ = settings_.sharing.process_group()->alltoall(outputs, inputs);
    return;
  }
  const bool in_place = settings_.gradients_stay && !has_gradient_;
  reduced_ = in_place ? own(row) : at::empty({size_}, row.options());
  const GroupPtr& group = settings_.sharing.process_group();
  c10d::ReduceScatterOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  if (layout_.even()) {
    reducing_ = reduce_scatter_single(*group, reduced_, row, options);
    return;
  }
  std::vector<at::Tensor> outputs{reduced_};
  std::vector<std::vector<at::Tensor>> inputs{parts_of(row)};
  reducing_ = group->reduce_scatter(outputs, inputs, options);
}

// `pieces`: a row for each rank of `sharing`, with its sum.
at::Tensor ShardGroup::average_in_order(const at::Tensor& pieces) const {
  at::Tensor sum = tree_sum(pieces);
  std::int64_t count = pieces.size(0);
  if (settings_.replicas.size() > 1) {
    count *= settings_.replicas.size();
    const at::Tensor all = at::empty({settings_.replicas.size(), sum.numel()}, sum.options());
    std::vector<std::vector<at::Tensor>> outputs{all.unbind(0)};
    std::vector<at::Tensor> inputs{sum};
    settings_.replicas.process_group()->allgather(outputs, inputs)->wait();
    sum = tree_sum(all);
  }
  return sum.mul(1.0 / static_cast<double>(count));  // on memory of its own: the sum is one row of many
}

void ShardGroup::end_reduce() {
  if (!reducing_) return;
  const at::NoGradGuard no_grad;
  std::exchange(reducing_, {})->wait();
  at::Tensor reduced = std::exchange(reduced_, {});
  if (settings_.deterministic) reduced = average_in_order(reduced);
  if (settings_.replicas.size() > 1 && !settings_.deterministic)
    settings_.replicas.all_reduce(reduced, c10d::ReduceOp::AVG);
  heed_resets();
  if (has_gradient_) {
    if (used_) {
      TORCH_WARN_ONCE(
          "dtrain: gradients were added to those of a step that is done. Call zero_grad() of the Parallel or of the "
          "optimizer after each step; zero_grad() of the module does not reach them");
    }
    widen_gradient();
    gradient_.add_(reduced.to(part_.device()));
  } else {
    gradient_ = reduced.to(part_.device(), kept_);
    has_gradient_ = true;
    used_ = false;
  }
  give_gradients();
}

void ShardGroup::drop_row() {
  settings_.rows->give_back(std::exchange(on_its_way_, {}));
  if (!has_gradient_ || gradient_.is_cpu()) return;
  // The program reads it from now on, and lets go of it when it likes.
  gradient_.record_stream(c10::impl::VirtualGuardImpl(gradient_.device().type()).getStream(gradient_.device()));
}

// Where no plan says so.
void ShardGroup::finish_reduce() {
  end_reduce();
  drop_row();
}

void ShardGroup::expect_gradients() {
  arrived_.assign(members_.size(), false);
  missing_ = 0;
  for (const ShardedParameter& each : members_) missing_ += each.trains() ? 1 : 0;
}

void ShardGroup::forget_gradients() {
  finish_reduce();
  drop_gradient();
  for (ShardedParameter& each : members_) each.tensor().mutable_grad().reset();
  if (!settings_.gradients_stay) unreduced_.reset();
  tree_.clear();
  came_.assign(members_.size(), false);
}

at::Tensor ShardGroup::gradient() {
  heed_resets();
  if (gradient_scale_.defined()) widen_gradient();
  return has_gradient_ ? gradient_ : at::Tensor();
}

// In a narrow type the factor would be one rounding more, and in float16 small gradients would become 0.
void ShardGroup::scale_gradient(const at::Tensor& factor) {
  if (!has_gradient_) return;
  if (gradient_.scalar_type() == type_) {
    gradient_.mul_(factor);
  } else {
    gradient_scale_ = gradient_scale_.defined() ? gradient_scale_ * factor : factor;
  }
}

void ShardGroup::widen_gradient() {
  heed_resets();
  if (!has_gradient_ || gradient_.scalar_type() == type_) return;
  const at::NoGradGuard no_grad;
  gradient_ = gradient_.to(type_);
  if (gradient_scale_.defined()) gradient_.mul_(std::exchange(gradient_scale_, {}));
  give_gradients();
}

void ShardGroup::keep_gradients_wide() {
  kept_ = type_;
  widen_gradient();
}

// The program may have reset gradients of its parts, as zero_grad() of torch's optimizers does.
void ShardGroup::heed_resets() {
  if (!has_gradient_) return;
  const at::NoGradGuard no_grad;
  bool any = false;
  for (const ShardRun& run : runs_) {
    if (run.values.grad().defined()) {
      any |= run.values.numel() > 0;
    } else {
      gradient_.narrow(0, run.values.storage_offset() - part_.storage_offset(), run.values.numel()).zero_();
    }
  }
  if (!any) drop_gradient();
}

void ShardGroup::drop_gradient() {
  gradient_.reset();
  gradient_scale_.reset();
  has_gradient_ = false;
  give_gradients();
}

// Autograd must not know them as views: then zero_grad() of torch's optimizers can detach them in place.
void ShardGroup::give_gradients() {
  const at::AutoDispatchBelowADInplaceOrView plain;
  for (const ShardRun& run : runs_) {
    at::Tensor& its = run.values.mutable_grad();
    if (has_gradient_) {
      its = gradient_.narrow(0, run.values.storage_offset() - part_.storage_offset(), run.values.numel());
    } else {
      its.reset();
    }
  }
}

}  // namespace dtrain
