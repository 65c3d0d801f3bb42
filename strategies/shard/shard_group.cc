#include "strategies/shard/shard_group.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <utility>

#include "strategies/collectives/collectives.h"

namespace dtrain {
namespace {

// The views that parameters and parts are of their rows are no business of autograd's.
using NoAutograd = at::AutoDispatchBelowADInplaceOrView;

void require_one_type(const std::string& group, const std::vector<NamedTensor>& parameters) {
  const at::Tensor& first = parameters.front().tensor;
  for (const NamedTensor& each : parameters) {
    const at::Tensor& its = each.tensor;
    if (its.layout() == at::kStrided && its.scalar_type() == first.scalar_type() &&
        (its.is_floating_point() || its.is_complex()))
      continue;
    throw ConfigError(fmt::format(
        "dtrain: {}: parameters that are sharded together must be dense floating tensors of one type. '{}' is {}, and "
        "'{}' is {}; make a unit of the module that has it (DTRAIN_UNIT)",
        group, parameters.front().name, c10::toString(first.scalar_type()), each.name,
        c10::toString(its.scalar_type())));
  }
}

std::vector<LaidOutParameter> layout_input(const std::vector<NamedTensor>& parameters) {
  std::vector<LaidOutParameter> found;
  for (const NamedTensor& each : parameters) {
    const std::int64_t rows = each.tensor.dim() > 0 ? each.tensor.size(0) : 1;
    found.push_back({rows, rows > 0 ? each.tensor.numel() / rows : 0, each.placement});
  }
  return found;
}

GroupLayout layout_for(const std::string& group, const std::vector<NamedTensor>& parameters,
                       std::vector<std::int64_t>& loads) {
  require_one_type(group, parameters);
  const auto bytes = static_cast<std::int64_t>(parameters.front().tensor.element_size());
  return lay_out(layout_input(parameters), bytes, loads);
}

// A parameter of this name is sharded: what to do about it, as soon as its unit is made, and later.
constexpr const char* kAdviceToBuilder =
    "A unit is sharded as soon as it is made: give its parameters their first values in the unit's own constructor";
constexpr const char* kAdvice = "Use it in the forward of its unit, which Parallel calls, or within full_parameters()";

// An all-gather of parts of different sizes. `own` may be this rank's part itself.
c10::intrusive_ptr<c10d::Work> gather_uneven(c10d::ProcessGroup& group, std::vector<at::Tensor> parts,
                                             const at::Tensor& own) {
  std::vector<at::Tensor> inputs(parts.size(), own);
  at::Tensor& its = parts[static_cast<std::size_t>(group.getRank())];
  if (its.is_alias_of(own)) its = inputs[static_cast<std::size_t>(group.getRank())] = own.narrow(0, 0, 0);
  return group.alltoall(parts, inputs);
}

class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientHook(ShardGroup& group, std::size_t member) : group_(group), member_(member) {}
  void operator()(const torch::autograd::Variable& /*parameter*/) override { group_.take_gradient(member_); }

 private:
  ShardGroup& group_;
  std::size_t member_;
};

}  // namespace

ShardGroup::ShardGroup(const ShardSettings& settings, std::string name, const std::vector<NamedTensor>& parameters,
                       std::vector<std::int64_t>& loads)
    : settings_(settings),
      name_(std::move(name)),
      layout_(layout_for(name_, parameters, loads)),
      type_(parameters.front().tensor.scalar_type()),
      compute_(settings.compute.value_or(type_)),
      reduce_(settings.reduce.value_or(compute_)),
      kept_(c10::elementSize(reduce_) < c10::elementSize(type_) ? reduce_ : type_),
      begin_(layout_.begin(settings.sharing.rank())),
      size_(layout_.size(settings.sharing.rank())),
      whole_(make_whole()),
      stays_(settings.whole_stays || settings.one_copy() || settings.sharing.size() == 1) {
  fill(parameters);
  free();
}

ShardGroup::~ShardGroup() {
  for (ShardedParameter& each : members_) {
    if (each.trains()) torch::autograd::impl::set_post_acc_grad_hooks(each.tensor(), nullptr);
  }
}

WholeMemory ShardGroup::make_whole() const {
  const at::TensorOptions plain = at::TensorOptions().dtype(compute_).device(settings_.device);
  if (settings_.host.size() > 1) return WholeMemory::of_host(settings_.host, layout_.elements, plain);
  return WholeMemory(layout_.elements, plain);
}

void ShardGroup::fill(const std::vector<NamedTensor>& parameters) {
  const at::NoGradGuard no_grad;
  at::Tensor values = at::zeros({layout_.elements}, at::TensorOptions().dtype(type_).device(settings_.device));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& its = parameters[i].tensor;
    if (settings_.everyone.rank() == 0) values.narrow(0, layout_.at[i], its.numel()).copy_(its.detach().reshape({-1}));
    shapes_.push_back(its.sizes().vec());
  }
  settings_.everyone.broadcast(values, 0);
  const at::Tensor& row = whole_.row();
  if (is_shared()) {
    const std::vector<at::Tensor> to = parts_across(row), from = parts_across(values);
    for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
    settings_.host.barrier();
  } else {
    row.copy_(values);
  }
  part_ = make_part(values);
  const NoAutograd plain;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor view = row.narrow(0, layout_.at[i], parameters[i].tensor.numel()).view(shapes_[i]);
    members_.emplace_back(parameters[i].name, parameters[i].tensor, view);
    members_.back().set_name(parameters[i].name, kAdviceToBuilder);
    members_.back().tensor().mutable_grad().reset();
  }
}

at::Tensor ShardGroup::make_part(const at::Tensor& values) const {
  const bool away = settings_.parts_on_cpu && !settings_.device.is_cpu();
  if (!away) return stays_ && compute_ == type_ ? own(whole_.row()) : own(values).clone();
  // Pinned: copies to the device then need no other one.
  at::Tensor part = at::empty({size_}, at::TensorOptions().dtype(type_).pinned_memory(true));
  part.copy_(own(values));
  return part;
}

void ShardGroup::settle(const Names& names, std::function<void()> before, std::function<void()> came) {
  before_gradient_ = std::move(before);
  gradient_came_ = std::move(came);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    ShardedParameter& each = members_[i];
    const auto name = names.find(each.tensor().unsafeGetTensorImpl());
    if (name == names.end()) {
      throw ConfigError(
          fmt::format("dtrain: the function that Parallel calls made a unit, {}, whose parameter '{}' is no part of "
                      "the module that "
                      "it returned; register the unit with register_module(), or do not make it",
                      name_, each.name()));
    }
    each.set_name(name->second, kAdvice);
    each.settle();
    if (!each.trains()) continue;
    torch::autograd::impl::set_post_acc_grad_hooks(each.tensor(), std::make_unique<GradientHook>(*this, i));
  }
  came_.assign(members_.size(), false);
  expect_gradients();
  make_runs();
}

void ShardGroup::require_as_settled() const {
  for (const ShardedParameter& each : members_) {
    if (each.is_as_it_was()) continue;
    throw ConfigError(fmt::format(
        "dtrain: parameter '{}' {} after Parallel took the model. Do that in the function that builds the model; "
        "Parallel::load() loads values",
        each.name(),
        each.tensor().requires_grad() != each.trains() ? "got another requires_grad"
                                                       : "got other memory, as to() and torch::load() do,"));
  }
}

bool ShardGroup::trains() const {
  return std::any_of(members_.begin(), members_.end(), [](const ShardedParameter& each) { return each.trains(); });
}

std::vector<at::Tensor> ShardGroup::parts_of(const at::Tensor& row) const {
  std::vector<at::Tensor> parts;
  for (int r = 0; r < settings_.sharing.size(); ++r) parts.push_back(row.narrow(0, layout_.begin(r), layout_.size(r)));
  return parts;
}

// What each rank of settings_.near has.
std::vector<at::Tensor> ShardGroup::near_parts_of(const at::Tensor& row) const {
  const int ranks = settings_.near.size(), each = settings_.sharing.size() / ranks;
  std::vector<at::Tensor> parts;
  for (int r = 0; r < ranks; ++r) {
    const std::int64_t begin = layout_.begin(r * each), last = (r + 1) * each - 1;
    parts.push_back(
        row.narrow(0, begin, layout_.begin(static_cast<int>(last)) + layout_.size(static_cast<int>(last)) - begin));
  }
  return parts;
}

// What this rank brings into the memory of its host: its own part, and those of the ranks that have its number on other
// hosts.
std::vector<at::Tensor> ShardGroup::parts_across(const at::Tensor& row) const {
  std::vector<at::Tensor> parts;
  for (int host = 0; host < std::max(1, settings_.across.size()); ++host) {
    const int rank = host * settings_.host.size() + settings_.host.rank();
    parts.push_back(row.narrow(0, layout_.begin(rank), layout_.size(rank)));
  }
  return parts;
}

void ShardGroup::begin_gather() {
  if (stays_) return;
  const at::NoGradGuard no_grad;
  whole_.take();
  const bool near = near_part_.defined();
  at::Tensor row = whole_.row(),
             input = near ? near_part_ : part_.to(settings_.device, compute_, /*non_blocking=*/true);
  const GroupPtr& group = (near ? settings_.near : settings_.sharing).process_group();
  if (layout_.even()) {
    gathering_ = all_gather_single(*group, row, input);
    return;
  }
  gathering_ = gather_uneven(*group, near ? near_parts_of(row) : parts_of(row), input);
}

void ShardGroup::join_gather() {
  if (gathering_) std::exchange(gathering_, {})->wait();
}

void ShardGroup::end_gather() {
  join_gather();
  near_part_.reset();
  for (ShardedParameter& each : members_) each.set_whole(true);
}

void ShardGroup::share_near() {
  if (!stays_) near_part_ = near_parts_of(whole_.row())[static_cast<std::size_t>(settings_.near.rank())].clone();
  free_whole();
}

void ShardGroup::free() {
  near_part_.reset();
  free_whole();
}

void ShardGroup::free_whole() {
  if (settings_.whole_stays) return;
  for (ShardedParameter& each : members_) each.set_whole(false);
  if (stays_) return;
  whole_.give_back(fmt::format(
      "dtrain: backward needs the parameters of {}, which are sharded here. Something left its forward in another way "
      "than as an output that output_tensors.h knows",
      name_));
}

Shard ShardGroup::shard_of(std::size_t member) const {
  const ShardedParameter& parameter = members_[member];
  const std::int64_t first = std::max(begin_, layout_.at[member]);
  const std::int64_t last = std::min(begin_ + size_, layout_.at[member] + parameter.tensor().numel());
  if (first >= last) return {parameter.name(), shapes_[member], 0, part_.narrow(0, 0, 0)};
  return {parameter.name(), shapes_[member], first - layout_.at[member], part_.narrow(0, first - begin_, last - first)};
}

void ShardGroup::make_runs() {
  std::int64_t begin = 0, end = 0;  // of the last run, in part_; equal: it has only empty shards
  for (const std::size_t each : layout_.order) {
    if (!members_[each].trains()) continue;
    Shard shard = shard_of(each);
    const std::int64_t count = shard.values.numel(), first = shard.values.storage_offset() - part_.storage_offset();
    if (runs_.empty() || (count > 0 && begin < end && first != end)) {
      runs_.emplace_back();
      begin = end = 0;
    }
    if (count > 0 && begin == end) begin = first;
    if (count > 0) end = first + count;
    runs_.back().values = part_.narrow(0, begin, end - begin);
    runs_.back().shards.push_back(std::move(shard));
  }
}

std::vector<Shard> ShardGroup::shards() const {
  std::vector<Shard> found;
  for (std::size_t each = 0; each < members_.size(); ++each) found.push_back(shard_of(each));
  return found;
}

void ShardGroup::end_reads() const {
  if (part_.device() == settings_.device) return;
  const c10::impl::VirtualGuardImpl device(settings_.device.type());
  device.synchronizeStream(device.getStream(settings_.device));
}

void ShardGroup::publish() {
  used_ = true;
  for (ShardedParameter& each : members_) {
    if (each.trains()) each.tensor().unsafeGetTensorImpl()->bump_version();
  }
  if (!stays_) return;
  const at::NoGradGuard no_grad;
  at::Tensor row = whole_.row();
  at::Tensor its = own(row);
  if (!its.is_alias_of(part_)) its.copy_(part_, /*non_blocking=*/true);
  if (settings_.sharing.size() == 1) return;
  if (is_shared()) {
    if (settings_.across.size() > 1) gather_uneven(*settings_.across.process_group(), parts_across(row), its)->wait();
    return;
  }
  const GroupPtr& group = settings_.sharing.process_group();
  if (layout_.even()) return all_gather(group, row, its);
  gather_uneven(*group, parts_of(row), its)->wait();
}

}  // namespace dtrain
