// See shm_backend.h.
#include "strategies/comm/shm_backend.h"

#include <fmt/format.h>
#include <pthread.h>

#include "strategies/comm/arena.h"
#include "strategies/comm/call_check.h"
#include "strategies/comm/flight_call.h"
#include "strategies/comm/interrupt.h"
#include "strategies/comm/join_all.h"
#include "strategies/comm/own_process.h"
#include "strategies/comm/shm_work.h"
#include "strategies/comm/store_meeting.h"
#include "strategies/comm/tensors.h"
#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

// Operations that may wait their turn; the Reducer has a handful. A caller beyond it waits.
constexpr std::size_t kMaxQueued = 4096;

std::shared_ptr<CommGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                      const RankNames& names) {
  if (rank == 0) put_flight_key(store);
  if (size == 1) return nullptr;
  StoreMeeting place(store);
  GroupOptions options;
  options.rank = rank;
  options.ranks = size;
  options.join_timeout = store->getTimeout();
  try {
    return form_group(place, options);
  } catch (...) {
    std::rethrow_exception(renamed(std::current_exception(), names));
  }
}

}  // namespace

struct ShmBackend::Task {
  c10::intrusive_ptr<ShmWork> work;
  Steps run;
  Timeout timeout;
  FlightRing::Ticket flight;
  std::string to_check;
};

ShmBackend::ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Timeout timeout,
                       RankNames names)
    : Backend(rank, size),
      process_(own_process()),
      default_timeout_(timeout),
      names_(std::move(names)),
      checks_calls_(checks_calls()),
      group_(make_group(store, rank, size, names_)),
      flight_(flight_key(store), rank, size),
      signals_(std::make_unique<Signals>()) {
  flight_.watch(group_);
  const std::lock_guard lock(mutex_);
  start_thread();
}

ShmBackend::~ShmBackend() {
  leave();
  if (!in_forked_child()) return;
  signals_.release();
  for (std::thread& thread : threads_) thread.detach();
}

bool ShmBackend::in_forked_child() const { return own_process() != process_; }

void ShmBackend::stop() {
  if (in_forked_child()) return;
  const std::lock_guard lock(mutex_);
  if (group_) group_->stop();
}

void ShmBackend::leave() {
  if (in_forked_child()) return;
  stop();
  shutdown();
}

void ShmBackend::shutdown() {
  stop_threads();
  std::shared_ptr<CommGroup> group;
  {
    const std::lock_guard lock(mutex_);
    group.swap(group_);
  }
  flight_.unwatch();
  if (group) group->p2p().end();  // callbacks may ask for the mutex
}

std::exception_ptr ShmBackend::run(StepsRef steps, Timeout timeout, const FlightRing::Ticket& flight,
                                   const std::string& to_check) {
  const at::NoGradGuard no_grad;  // parameters are written in place
  try {
    if (group_ && checks_calls_) require_same_calls(*group_, getRank(), getSize(), to_check, timeout);
    if (group_) steps(timeout);
    flight_.ended(flight, true);
    return nullptr;
  } catch (...) {
    // Whatever it was (no memory for a copy, say), this rank is now behind the others: its next collective would meet
    // their present one.
    group_->abort();
    flight_.ended(flight, false);
    note_failure();
    return with_more(renamed(std::current_exception(), names_), flight_.settle());
  }
}

std::string ShmBackend::text_to_check(c10d::OpType type, at::TensorList results, const How& how) const {
  if (!checks_calls_) return "";
  const at::TensorList tensors = how.alike.empty() ? results : how.alike;
  if (!how.any_shape) return call_text(type, tensors, how.reduction, how.root);
  return fmt::format("{} of {}", call_text(type, {}, nullptr, -1), c10::toString(tensors.front().scalar_type()));
}

// Run `action` as the operation in progress, on this thread. There must be none.
template <class Action>
void ShmBackend::occupy(std::unique_lock<std::mutex>& lock, Action action) {
  running_ = true;
  lock.unlock();
  {
    const CarryingOut here;
    action();
  }
  lock.lock();
  running_ = false;
  if (stopping_ || !queue_.empty()) signals_->work.notify_all();
}

// On this thread. False: others are before it, and nothing was done.
bool ShmBackend::at_once(c10d::OpType type, at::TensorList results, const How& how, StepsRef steps) {
  TORCH_CHECK(!in_forked_child(), "dtrain: a collective in a process forked from rank ", getRank());
  std::unique_lock lock(mutex_);
  if (stopping_ || running_ || !queue_.empty()) return false;
  ++enqueued_;
  const FlightRing::Ticket flight = note_call(type, results, how, true);
  std::exception_ptr error;
  occupy(lock, [&] { error = run(steps, how.timeout, flight, text_to_check(type, results, how)); });
  if (error) std::rethrow_exception(error);
  return true;
}

ShmBackend::Steps ShmBackend::in_turn(std::vector<Steps> each) {
  return [each = std::move(each)](Timeout timeout) {
    for (const Steps& steps : each) steps(timeout);
  };
}

ShmBackend::WorkPtr ShmBackend::enqueue(c10d::OpType type, Tensors results, How how, Steps run) {
  TORCH_CHECK(!in_forked_child(), "dtrain: a collective in a process forked from rank ", getRank());
  auto task = std::make_unique<Task>();
  task->work = c10::make_intrusive<ShmWork>(getRank(), type, share(results));
  task->run = std::move(run);
  task->timeout =
      std::min<Timeout>(how.timeout > Timeout::zero() ? how.timeout : default_timeout_.load(), kLongestTimeout);
  task->to_check = text_to_check(type, results, how);
  WorkPtr work = task->work;
  std::unique_lock lock(mutex_);
  TORCH_CHECK(!stopping_, "dtrain: a collective after the session was shut down");
  const bool room =
      signals_->room.wait_for(lock, task->timeout, [this] { return queue_.size() < kMaxQueued || stopping_; });
  TORCH_CHECK(room && !stopping_, "dtrain: ", kMaxQueued, " collectives are waiting already");
  ++enqueued_;
  const bool waits = how.async || running_ || !queue_.empty();
  task->flight = note_call(type, results, how, !waits);
  if (waits) {
    queue_.push_back(std::move(task));
    if (!running_) signals_->work.notify_one();
    return work;
  }
  occupy(lock, [&] { carry_out(std::move(task)); });
  return work;
}

void ShmBackend::start_thread() {
  ++idle_;
  threads_.emplace_back([this] { progress_loop(); });
}

void ShmBackend::progress_loop() {
  ::pthread_setname_np(::pthread_self(), "dtrain-comm");
  std::unique_lock lock(mutex_);
  while (true) {
    signals_->work.wait(lock, [this] { return !running_ && (!queue_.empty() || stopping_); });
    --idle_;
    if (queue_.empty()) return;
    std::unique_ptr<Task> task = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    signals_->room.notify_all();
    lock.unlock();
    flight_.started(task->flight);
    const bool made_way = carry_out(std::move(task));
    lock.lock();
    ++idle_;
    if (made_way) continue;
    running_ = false;
    if (stopping_) signals_->work.notify_all();
  }
}

// True: another thread runs the operations now. Not where nobody can have asked for the task's future yet.
bool ShmBackend::carry_out(std::unique_ptr<Task> task) {
  const std::exception_ptr error = run(task->run, task->timeout, task->flight, task->to_check);
  task->run = nullptr;
  bool made_way = false;
  task->work->complete(error, [this, &made_way] { made_way = make_way(); });
  return made_way;
}

// Callbacks are about to run on this thread, and may wait for later operations: another one must run those.
bool ShmBackend::make_way() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  if (idle_ == 0) start_thread();
  signals_->work.notify_all();
  return true;
}

void ShmBackend::stop_threads() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  signals_->work.notify_all();
  signals_->room.notify_all();
  join_all(threads_, lock);
}

template <class Held>
auto ShmBackend::all_reduce_steps(Held tensor, const c10d::ReduceOp& op) {
  const ElementType type = element_type(tensor);
  const Reduction reduction = reduction_of(op, tensor);
  return [=, this](Timeout timeout) {
    in_place(tensor, [&](const at::Tensor& t) {
      group_->all_reduce(bytes_of(t), static_cast<std::size_t>(t.numel()), type, reduction, timeout);
    });
  };
}

ShmBackend::WorkPtr ShmBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only_writable(tensors, "all_reduce");
  return enqueue(c10d::OpType::ALLREDUCE, tensors,
                 {options.timeout, options.asyncOp, -1, flight_reduction(options.reduceOp, tensor)},
                 all_reduce_steps(tensor, options.reduceOp));
}

void ShmBackend::all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  check_writable(tensor);
  carry_out_now(c10d::OpType::ALLREDUCE, tensor, {default_timeout_, false, -1, flight_reduction(op, tensor)},
                all_reduce_steps(std::cref(tensor), op));
}

ShmBackend::WorkPtr ShmBackend::allreduce_coalesced(Tensors& inputs, const c10d::AllreduceCoalescedOptions& options) {
  const Tensors tensors = share(inputs);
  std::vector<Steps> each;
  for (const at::Tensor& tensor : tensors) {
    check_writable(tensor);
    each.emplace_back(all_reduce_steps(tensor, options.reduceOp));
  }
  return enqueue(c10d::OpType::ALLREDUCE_COALESCED, tensors,
                 {options.timeout, options.asyncOp, -1, flight_reduction(options.reduceOp, tensors)},
                 in_turn(std::move(each)));
}

auto ShmBackend::broadcast_steps(const at::Tensor& tensor, int root) {
  return [=, this](Timeout timeout) {
    in_place(tensor, [&](const at::Tensor& t) { group_->broadcast(bytes_of(t), t.nbytes(), root, timeout); });
  };
}

ShmBackend::WorkPtr ShmBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only_writable(tensors, "broadcast");
  const int root = root_of(options.rootRank, "broadcast");
  return enqueue(c10d::OpType::BROADCAST, tensors, {options.timeout, options.asyncOp, root},
                 broadcast_steps(tensor, root));
}

void ShmBackend::broadcast_now(const at::Tensor& tensor, int root) {
  check_writable(tensor);
  root = root_of(root, "broadcast");
  carry_out_now(c10d::OpType::BROADCAST, tensor, {default_timeout_, false, root}, broadcast_steps(tensor, root));
}

at::Tensor ShmBackend::allocateTensor(long size, at::TensorOptions options) {
  constexpr long kMost = std::numeric_limits<long>::max() / 64;  // of any type: its bytes can be counted
  const bool shared = getSize() > 1 && options.device().is_cpu() && size >= 0 && size <= kMost;
  if (!shared) return at::empty({size}, options);
  options = options.device(at::kCPU).requires_grad(false);
  const auto bytes = static_cast<std::size_t>(size) * options.dtype().itemsize();
  Arena* arena = Arena::own();
  std::byte* const data = arena != nullptr ? arena->allocate(bytes) : nullptr;
  if (data == nullptr) return at::empty({size}, options);
  return at::from_blob(
      data, {size}, [arena](void* memory) { arena->free(static_cast<std::byte*>(memory)); }, options);
}

auto ShmBackend::barrier_steps() {
  return [this](Timeout timeout) { group_->barrier(timeout); };
}

ShmBackend::WorkPtr ShmBackend::barrier(const c10d::BarrierOptions& options) {
  return enqueue(c10d::OpType::BARRIER, {}, {options.timeout, options.asyncOp}, barrier_steps());
}

void ShmBackend::barrier_now() { carry_out_now(c10d::OpType::BARRIER, {}, {default_timeout_, false}, barrier_steps()); }

void ShmBackend::setTimeout(Timeout timeout) {
  TORCH_CHECK(timeout > Timeout::zero(), "dtrain: a timeout of ", timeout.count(), " ms");
  default_timeout_ = timeout;
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
