// See power_sgd.h.
#include "strategies/ddp/power_sgd.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <unordered_map>

#include "strategies/ddp/bucket_group.h"
#include "strategies/ddp/power_sgd_plan.h"

namespace dtrain {
namespace {

using Future = c10::ivalue::Future;
using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

// Of one parameter.
struct Memory {
  std::size_t index = 0;
  at::Tensor error{};       // what was not sent; with error feedback
  at::Tensor q{};           // of the last step; with warm start
  std::uint64_t draws = 0;  // of random numbers
};

c10::Stream stream_of(const at::Device& device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

// A GPU runs callbacks on streams of their own. They know of the collective before them; of what backward had told the
// device until a bucket was ready they learn here.
class Readiness {
 public:
  explicit Readiness(const at::Device& device) : device_(device) {
    if (device.is_cpu()) return;
    event_ = std::make_shared<c10::Event>(device.type());
    event_->record(stream_of(device));
  }
  void wait() const {
    if (event_) event_->block(stream_of(device_));
  }

 private:
  at::Device device_;
  std::shared_ptr<c10::Event> event_{};
};

// The memory of `tensor` is not given to others before this stream is done with it.
void uses(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) tensor.record_stream(stream_of(tensor.device()));
}

// Used by one bucket at a time, those of a step in their order.
struct Shared {
  GroupPtr group;
  PowerSgd options;
  std::unordered_map<const c10::TensorImpl*, Memory> memories{};

  FuturePtr average(const at::Tensor& tensor) const {
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions how;
    how.reduceOp = c10d::ReduceOp::AVG;
    return group->allreduce(tensors, how)->getFuture();
  }
};

// The columns of a matrix become orthonormal. Columns of zeros become some others, or stay so with an epsilon.
void orthogonalize(at::Tensor matrix, double epsilon) {
  if (epsilon == 0) {
    matrix.copy_(std::get<0>(at::linalg_qr(matrix)));
    return;
  }
  for (std::int64_t i = 0; i < matrix.size(1); ++i) {
    at::Tensor column = matrix.narrow(1, i, 1);
    column.div_(column.norm() + epsilon);
    if (i + 1 == matrix.size(1)) return;
    at::Tensor rest = matrix.narrow(1, i + 1, matrix.size(1) - i - 1);
    rest.sub_(column.matmul(column.t().matmul(rest)));
  }
}

std::vector<std::vector<std::int64_t>> shapes_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<std::int64_t>> shapes;
  shapes.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) shapes.push_back(tensor.sizes().vec());
  return shapes;
}

// A bucket on its way.
class Compression {
 public:
  Compression(std::shared_ptr<Shared> shared, const c10d::GradBucket& bucket)
      : shared_(std::move(shared)),
        buffer_(bucket.getBuffer()),
        gradients_(bucket.getGradients()),
        parameters_(bucket.getParameters()),
        plan_(plan_power_sgd(shapes_of(gradients_), shared_->options)),
        numbers_(buffer_.options().dtype(buffer_.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)) {}

  static FuturePtr start(const std::shared_ptr<Compression>& self) {
    return self->average_first()
        ->thenAsync(
            [self](Future& first) {
              first.value();  // throws where it failed
              return self->average_second();
            },
            c10::ListType::ofTensors())
        ->then(
            [self](Future& second) -> c10::IValue {
              second.value();
              return self->finish();
            },
            c10::TensorType::get());
  }

 private:
  using Matrix = PowerSgdPlan::Matrix;

  FuturePtr average_first() {
    const at::NoGradGuard no_grad;
    first_ = at::empty({plan_.first}, numbers_);
    second_ = at::empty({plan_.second}, numbers_);
    for (const Matrix& one : plan_.matrices) {
      const at::Tensor columns = q(one);
      fill(memory(one), columns);
      orthogonalize(columns, shared_->options.orthogonalization_epsilon);
      sent_.push_back(with_error(memory(one), gradient(one)));
      at::Tensor product = p(one);
      at::mm_out(product, sent_.back(), columns);
    }
    for (const auto& one : plan_.whole) part_of_first(one).copy_(gradients_[one.tensor].view(-1));
    return shared_->average(first_);
  }

  FuturePtr average_second() {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& reduced : {first_, second_}) uses(reduced);
    for (const at::Tensor& sent : sent_) uses(sent);
    for (const auto& one : plan_.whole) gradients_[one.tensor].view(-1).copy_(part_of_first(one));
    for (std::size_t i = 0; i < plan_.matrices.size(); ++i) {
      const at::Tensor columns = p(plan_.matrices[i]);
      orthogonalize(columns, shared_->options.orthogonalization_epsilon);
      at::Tensor product = q(plan_.matrices[i]);
      at::mm_out(product, sent_[i].t(), columns);
    }
    return shared_->average(second_);
  }

  at::Tensor finish() {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& reduced : {first_, second_}) uses(reduced);
    for (const Matrix& one : plan_.matrices) {
      at::Tensor result = gradient(one);
      result.copy_(p(one).matmul(q(one).t()));
      if (shared_->options.error_feedback) memory(one).error.sub_(result);
      if (shared_->options.warm_start) memory(one).q = q(one);
    }
    return buffer_;
  }

  Memory& memory(const Matrix& matrix) const {
    return shared_->memories.at(parameters_[matrix.tensor].unsafeGetTensorImpl());
  }
  at::Tensor gradient(const Matrix& matrix) const {
    return gradients_[matrix.tensor].view({matrix.rows, matrix.columns});
  }
  at::Tensor part_of_first(const PowerSgdPlan::Whole& one) const { return first_.narrow(0, one.at, one.count); }
  at::Tensor p(const Matrix& one) const {
    return first_.narrow(0, one.p_at, one.rows * one.rank).view({one.rows, one.rank});
  }
  at::Tensor q(const Matrix& one) const {
    return second_.narrow(0, one.q_at, one.columns * one.rank).view({one.columns, one.rank});
  }

  void fill(Memory& memory, at::Tensor columns) const {
    if (memory.q.defined()) {
      uses(memory.q);
      columns.copy_(memory.q);
      return;
    }
    const auto numbers = random_numbers(shared_->options.seed, memory.index, memory.draws++, columns.numel());
    columns.copy_(at::tensor(numbers, at::kDouble).view(columns.sizes()));
  }

  // The gradient and what was not sent of those before.
  at::Tensor with_error(Memory& memory, const at::Tensor& gradient) const {
    if (!shared_->options.error_feedback) return gradient.to(numbers_);
    if (memory.error.defined()) return memory.error.add_(gradient);
    return memory.error = gradient.to(numbers_, /*non_blocking=*/false, /*copy=*/true);
  }

  const std::shared_ptr<Shared> shared_;
  const at::Tensor buffer_;
  const std::vector<at::Tensor> gradients_;
  const std::vector<at::Tensor> parameters_;
  const PowerSgdPlan plan_;
  const at::TensorOptions numbers_;
  at::Tensor first_, second_;
  std::vector<at::Tensor> sent_;  // of each matrix: this rank's
};

FuturePtr average_whole(const std::shared_ptr<Shared>& shared, const at::Tensor& buffer) {
  return shared->average(buffer)->then(
      [buffer](Future& average) -> c10::IValue {
        average.value();
        return buffer;
      },
      c10::TensorType::get());
}

class PowerSgdHook final : public c10d::CppCommHookInterface<std::shared_ptr<Shared>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  // A bucket starts when the one before it is done: their collectives then have one order on all ranks. Backward goes
  // on meanwhile.
  FuturePtr runHook(c10d::GradBucket& bucket) override {
    const auto start = [begin = begin(bucket), origin = origin_of(bucket)] {
      const CallsOf its(origin);
      return begin();
    };
    const auto next = [start, ready = Readiness(bucket.getBuffer().device())](Future& before) {
      before.value();
      ready.wait();
      return start();
    };
    last_ = last_ ? last_->thenAsync(next, c10::TensorType::get()) : start();
    return last_;
  }

 private:
  std::function<FuturePtr()> begin(const c10d::GradBucket& bucket) {
    const bool compresses = step_ >= state_->options.start_step;
    if (bucket.isLast()) ++step_;
    if (!compresses) return [shared = state_, buffer = bucket.getBuffer()] { return average_whole(shared, buffer); };
    return [one = std::make_shared<Compression>(state_, bucket)] { return Compression::start(one); };
  }

  std::int64_t step_ = 0;
  FuturePtr last_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> power_sgd_hook(const GroupPtr& group,
                                                        const std::vector<at::Tensor>& parameters,
                                                        const PowerSgd& options) {
  auto shared = std::make_shared<Shared>(Shared{group, options});
  for (const at::Tensor& parameter : parameters)
    shared->memories.emplace(parameter.unsafeGetTensorImpl(), Memory{shared->memories.size()});
  return std::make_unique<PowerSgdHook>(std::move(shared));
}

}  // namespace dtrain
