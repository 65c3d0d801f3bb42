// See shm_backend.h.
#include "strategies/comm/shm_backend.h"

#include <fmt/format.h>
#include <pthread.h>

#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

// Operations that may wait their turn; the Reducer has a handful. A caller beyond it waits.
constexpr std::size_t kMaxQueued = 4096;

ElementType element_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return ElementType::f64;
    case at::kFloat:
      return ElementType::f32;
    case at::kHalf:
      return ElementType::f16;
    case at::kBFloat16:
      return ElementType::bf16;
    case at::kLong:
      return ElementType::i64;
    case at::kInt:
      return ElementType::i32;
    case at::kShort:
      return ElementType::i16;
    case at::kChar:
      return ElementType::i8;
    case at::kByte:
      return ElementType::u8;
    case at::kBool:
      return ElementType::boolean;
    default:
      TORCH_CHECK(false, "dtrain: CPU reductions do not take ", tensor.scalar_type(), " tensors");
  }
}

Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return Reduction::sum;
    case c10d::ReduceOp::AVG:
      TORCH_CHECK(tensor.is_floating_point(), "dtrain: AVG needs a floating-point tensor, not ", tensor.scalar_type());
      return Reduction::avg;
    case c10d::ReduceOp::PRODUCT:
      return Reduction::product;
    case c10d::ReduceOp::MIN:
      return Reduction::min;
    case c10d::ReduceOp::MAX:
      return Reduction::max;
    default:
      TORCH_CHECK(false, "dtrain: CPU reductions are SUM, AVG, PRODUCT, MIN and MAX");
  }
}

void check_dense_cpu(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided,
              "dtrain: the CPU process group takes dense CPU tensors, not ", tensor.toString());
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors, const char* op) {
  TORCH_CHECK(tensors.size() == 1, "dtrain: ", op, " takes one tensor a rank, not ", tensors.size());
  check_dense_cpu(tensors.front());
  return tensors.front();
}

std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// Run `action` on contiguous memory with the tensor's values and leave its result in the tensor.
template <class Action>
void in_place(const at::Tensor& tensor, Action action) {
  if (tensor.is_contiguous()) return action(tensor);
  const at::Tensor staged = tensor.contiguous();
  action(staged);
  at::Tensor(tensor).copy_(staged);
}

// A Work whose future carries the output tensors; the Reducer takes its results from there.
class ShmWork final : public c10d::Work {
 public:
  ShmWork(int rank, c10d::OpType type, std::vector<at::Tensor> results)
      : Work(rank, type),
        results_(std::move(results)),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors())) {}

  void complete() {
    future_->markCompleted(c10::IValue(results_));
    finish();
  }
  void fail(const std::exception_ptr& error) {
    future_->setErrorIfNeeded(error);
    finish(error);
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return results_; }

 private:
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// The c10d store as a group's meeting place.
class StoreMeeting final : public MeetingPlace {
 public:
  explicit StoreMeeting(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}
  void put(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string take(const std::string& key) override {
    try {
      return store_->get_to_str(key);
    } catch (const c10::Error& error) {
      throw std::runtime_error(short_reason(error));
    }
  }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

std::unique_ptr<ShmGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  if (size == 1) return nullptr;
  StoreMeeting place(store);
  ShmGroup::Options options;
  options.rank = rank;
  options.ranks = size;
  return std::make_unique<ShmGroup>(place, options);
}

}  // namespace

struct ShmBackend::Task {
  c10::intrusive_ptr<ShmWork> work;
  std::function<void(Timeout)> run;
  Timeout timeout;
};

ShmBackend::ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Timeout timeout)
    : Backend(rank, size), default_timeout_(timeout), group_(make_group(store, rank, size)) {
  thread_ = std::thread([this] { progress_loop(); });
}

ShmBackend::~ShmBackend() { leave(); }

void ShmBackend::leave() {
  {
    const std::lock_guard lock(mutex_);
    if (group_) group_->stop();
  }
  shutdown();
}

void ShmBackend::shutdown() {
  stop_thread();
  const std::lock_guard lock(mutex_);
  group_.reset();
}

ShmBackend::WorkPtr ShmBackend::enqueue(c10d::OpType type, Tensors results, Timeout timeout,
                                        std::function<void(Timeout)> run) {
  auto task = std::make_unique<Task>();
  task->work = c10::make_intrusive<ShmWork>(getRank(), type, std::move(results));
  task->run = std::move(run);
  task->timeout = timeout > Timeout::zero() ? timeout : default_timeout_;
  WorkPtr work = task->work;
  std::unique_lock lock(mutex_);
  TORCH_CHECK(!stopping_, "dtrain: a collective after the session was shut down");
  const bool room = changed_.wait_for(lock, task->timeout, [this] { return queue_.size() < kMaxQueued || stopping_; });
  TORCH_CHECK(room && !stopping_, "dtrain: ", kMaxQueued, " collectives are waiting already");
  queue_.push_back(std::move(task));
  ++enqueued_;
  changed_.notify_all();
  return work;
}

void ShmBackend::progress_loop() {
  ::pthread_setname_np(::pthread_self(), "dtrain-comm");
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    const std::unique_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    lock.unlock();
    std::exception_ptr error;
    try {
      if (group_) task->run(task->timeout);
    } catch (...) {
      error = std::current_exception();
    }
    if (!error) {
      task->work->complete();
      continue;
    }
    lock.lock();
    failed_ = true;
    lock.unlock();
    task->work->fail(error);
  }
}

void ShmBackend::stop_thread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

ShmBackend::WorkPtr ShmBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only(tensors, "all_reduce");
  const ElementType type = element_type(tensor);
  const Reduction reduction = reduction_of(options.reduceOp, tensor);
  return enqueue(c10d::OpType::ALLREDUCE, tensors, options.timeout, [=, this](Timeout timeout) {
    in_place(tensor, [&](const at::Tensor& t) {
      group_->all_reduce(bytes_of(t), static_cast<std::size_t>(t.numel()), type, reduction, timeout);
    });
  });
}

ShmBackend::WorkPtr ShmBackend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  for (const at::Tensor& tensor : tensors) {
    check_dense_cpu(tensor);
    reduction_of(options.reduceOp, tensor);
  }
  const c10d::ReduceOp op = options.reduceOp;
  return enqueue(c10d::OpType::ALLREDUCE_COALESCED, tensors, options.timeout, [=, this](Timeout timeout) {
    for (const at::Tensor& tensor : tensors) {
      in_place(tensor, [&](const at::Tensor& t) {
        group_->all_reduce(bytes_of(t), static_cast<std::size_t>(t.numel()), element_type(t), reduction_of(op, t),
                           timeout);
      });
    }
  });
}

ShmBackend::WorkPtr ShmBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors, "broadcast");
  const int root = static_cast<int>(options.rootRank);
  TORCH_CHECK(root >= 0 && root < getSize(), "dtrain: broadcast from rank ", root, " of ", getSize());
  return enqueue(c10d::OpType::BROADCAST, tensors, options.timeout, [=, this](Timeout timeout) {
    in_place(tensor, [&](const at::Tensor& t) { group_->broadcast(bytes_of(t), t.nbytes(), root, timeout); });
  });
}

ShmBackend::WorkPtr ShmBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) {
  const at::Tensor input = only(inputs, "all_gather");
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<std::size_t>(getSize()),
              "dtrain: all_gather needs one output tensor for each of the ", getSize(), " ranks");
  const Tensors parts = outputs[0];
  for (const at::Tensor& part : parts) {
    check_dense_cpu(part);
    TORCH_CHECK(part.scalar_type() == input.scalar_type() && part.numel() == input.numel(),
                "dtrain: all_gather needs outputs of the input's type and size");
  }
  const bool alone = getSize() == 1;
  if (alone) at::Tensor(parts[0]).copy_(input);
  return enqueue(c10d::OpType::ALLGATHER, parts, options.timeout, [=, this](Timeout timeout) {
    const at::Tensor source = input.contiguous();
    Tensors staged;
    std::vector<std::byte*> places;
    for (const at::Tensor& part : parts) {
      staged.push_back(part.is_contiguous() ? part : at::empty_like(part, at::MemoryFormat::Contiguous));
      places.push_back(bytes_of(staged.back()));
    }
    group_->all_gather(bytes_of(source), places, source.nbytes(), timeout);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (!parts[r].is_contiguous()) at::Tensor(parts[r]).copy_(staged[r]);
    }
  });
}

ShmBackend::WorkPtr ShmBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::AllgatherOptions& options) {
  Tensors outputs{output};
  Tensors inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ShmBackend::WorkPtr ShmBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "dtrain: all_gather needs as many outputs as inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_dense_cpu(inputs[i]);
    check_dense_cpu(outputs[i]);
    TORCH_CHECK(outputs[i].is_contiguous() && outputs[i].scalar_type() == inputs[i].scalar_type() &&
                    outputs[i].numel() == inputs[i].numel() * getSize(),
                "dtrain: all_gather needs a contiguous output of ", getSize(), " times the input");
    if (getSize() == 1) outputs[i].view(-1).copy_(inputs[i].reshape(-1));
  }
  return enqueue(c10d::OpType::_ALLGATHER_BASE, outputs, options.timeout, [=, this](Timeout timeout) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor source = inputs[i].contiguous();
      std::vector<std::byte*> places;
      for (int r = 0; r < getSize(); ++r) {
        places.push_back(bytes_of(outputs[i]) + static_cast<std::size_t>(r) * source.nbytes());
      }
      group_->all_gather(bytes_of(source), places, source.nbytes(), timeout);
    }
  });
}

ShmBackend::WorkPtr ShmBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  const at::Tensor output = only(outputs, "reduce_scatter");
  TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == static_cast<std::size_t>(getSize()),
              "dtrain: reduce_scatter needs one input tensor for each of the ", getSize(), " ranks");
  const Tensors parts = inputs[0];
  for (const at::Tensor& part : parts) {
    check_dense_cpu(part);
    TORCH_CHECK(part.scalar_type() == output.scalar_type() && part.numel() == output.numel(),
                "dtrain: reduce_scatter needs inputs of the output's type and size");
  }
  const ElementType type = element_type(output);
  const Reduction reduction = reduction_of(options.reduceOp, output);
  if (getSize() == 1) at::Tensor(output).copy_(parts[0]);
  return enqueue(c10d::OpType::REDUCE_SCATTER, outputs, options.timeout, [=, this](Timeout timeout) {
    Tensors staged;
    std::vector<const std::byte*> places;
    for (const at::Tensor& part : parts) {
      staged.push_back(part.contiguous());
      places.push_back(bytes_of(staged.back()));
    }
    in_place(output, [&](const at::Tensor& t) {
      group_->reduce_scatter(places, bytes_of(t), static_cast<std::size_t>(t.numel()), type, reduction, timeout);
    });
  });
}

ShmBackend::WorkPtr ShmBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                     const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(input.is_contiguous() && input.numel() == output.numel() * getSize(),
              "dtrain: reduce_scatter needs a contiguous input of ", getSize(), " times the output");
  Tensors outputs{output};
  std::vector<Tensors> inputs{input.view(-1).chunk(getSize())};
  if (output.numel() == 0) inputs[0].assign(static_cast<std::size_t>(getSize()), output);
  return reduce_scatter(outputs, inputs, options);
}

ShmBackend::WorkPtr ShmBackend::barrier(const c10d::BarrierOptions& options) {
  return enqueue(c10d::OpType::BARRIER, {}, options.timeout, [this](Timeout timeout) { group_->barrier(timeout); });
}

c10d::ErrorType ShmBackend::getError() {
  const std::lock_guard lock(mutex_);
  return failed_ ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

uint64_t ShmBackend::getSequenceNumberForGroup() {
  const std::lock_guard lock(mutex_);
  return enqueued_;
}

void ShmBackend::abort() {
  const std::lock_guard lock(mutex_);
  if (group_) group_->abort();
}

}  // namespace dtrain
