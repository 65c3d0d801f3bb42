// See cpu_backend.h.
#include "strategies/comm/backend/cpu_backend.h"

#include <fmt/format.h>

#include "strategies/comm/backend/arena_tensor.h"
#include "strategies/comm/backend/cpu_work.h"
#include "strategies/comm/backend/flight_notes.h"
#include "strategies/comm/backend/sparse.h"
#include "strategies/comm/backend/store_meeting.h"
#include "strategies/comm/backend/tensors.h"
#include "strategies/comm/base/call_origin.h"
#include "strategies/comm/base/own_process.h"
#include "strategies/comm/blame/consequence.h"
#include "strategies/comm/groups/call_check.h"
#include "strategies/comm/groups/form_group.h"
#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

std::shared_ptr<CommGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                      const RankNames& names, std::chrono::milliseconds join_timeout) {
  if (rank == 0) put_flight_key(store);
  if (size == 1) return nullptr;
  StoreMeeting place(store);
  GroupOptions options;
  options.rank = rank;
  options.ranks = size;
  options.join_timeout = join_timeout;
  prepare_to_tell_launcher();
  try {
    return form_group(place, options);
  } catch (...) {
    std::rethrow_exception(told_to_launcher(renamed(std::current_exception(), names), names, size));
  }
}

}  // namespace

// A collective that waits its turn.
class CpuBackend::Task final : public OperationQueue::Operation {
 public:
  explicit Task(CpuBackend& its) : backend(its) {}
  void carry_out(const OperationQueue::MakeWay& make_way) override {
    const CallsOf its(origin);  // on the thread's side too, callbacks included
    backend.flight_->started(flight);
    backend.carry_out(*this, make_way);
  }

  CpuBackend& backend;
  const CallOrigin origin = CallOrigin::current();
  c10::intrusive_ptr<CpuWork> work;
  Steps run;
  Timeout timeout{};
  FlightNotes::Ticket flight;
  std::string to_check;
};

CpuBackend::CpuBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Timeout timeout,
                       RankNames names)
    : CpuBackend(store, rank, size, Setup{options_with(timeout), std::move(names)}) {}

CpuBackend::CpuBackend(const StorePtr& store, int rank, int size, Setup setup)
    : Backend(rank, size),
      process_(own_process()),
      options_(std::move(setup.options)),
      names_(std::move(setup.names)),
      checks_calls_(checks_calls()),
      store_(setup.later ? std::move(setup.later) : store),
      identity_(random_token()) {
  if (!is_formed_later(*options_)) form(store, setup.join_timeout.value_or(store->getTimeout()));
  queue_ = std::make_unique<OperationQueue>(mutex_);
}

void CpuBackend::form(const StorePtr& keys, Timeout join_timeout) {
  const auto group = make_group(keys, rank_, size_, names_, join_timeout);
  auto flight = std::make_unique<FlightNotes>(keys, rank_, size_, group);
  const std::lock_guard lock(mutex_);
  group_ = group;
  flight_ = std::move(flight);
  formed_ = true;
}

CpuBackend::~CpuBackend() {
  leave();
  if (!in_forked_child()) return;
  static_cast<void>(queue_.release());
  store_.release();
}

bool CpuBackend::in_forked_child() const { return own_process() != process_; }

void CpuBackend::stop() {
  if (in_forked_child()) return;
  const std::lock_guard lock(mutex_);
  if (group_) group_->stop();
}

void CpuBackend::leave() {
  if (in_forked_child()) return;
  stop();
  shutdown();
}

void CpuBackend::shutdown() {
  if (in_forked_child()) return;
  std::shared_ptr<CommGroup> group;
  {
    OperationQueue::Lock lock(mutex_);
    queue_->stop(lock);
    group.swap(group_);
  }
  if (flight_) flight_->end();
  if (group) group->p2p().end();  // callbacks may ask for the mutex
}

void CpuBackend::carry_out(Task& task, const OperationQueue::MakeWay& make_way) {
  if (times_) task.work->begin_timed();
  const std::exception_ptr error = run(task.run, task.timeout, task.flight, task.to_check);
  task.run = nullptr;
  task.work->complete(error, make_way);
}

std::exception_ptr CpuBackend::run(StepsRef steps, Timeout timeout, const FlightNotes::Ticket& flight,
                                   const std::string& to_check) {
  const at::NoGradGuard no_grad;  // parameters are written in place
  std::exception_ptr error;
  try {
    if (group_ && checks_calls_) require_same_calls(*group_, getRank(), getSize(), to_check, timeout);
    if (group_) steps(timeout);
  } catch (...) {
    // Whatever it was (no memory for a copy, say), this rank is now behind the others: its next collective would meet
    // their present one.
    group_->abort();
    error = std::current_exception();
  }
  return ended(flight, error);
}

// The end of an operation. Returns the error as its caller is told of it, where there is one.
std::exception_ptr CpuBackend::ended(const FlightNotes::Ticket& flight, const std::exception_ptr& error) {
  flight_->ended(flight, !error);
  if (!error) return nullptr;
  note_failure();
  return flight_->explained(told_to_launcher(renamed(error, names_), names_, getSize()));
}

void CpuBackend::note_failure() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
}

// For the flight recorder. With the mutex held.
FlightNotes::Ticket CpuBackend::note_call(c10d::OpType type, at::TensorList results, const How& how, bool starts) {
  flight_->know_name(*this);
  return flight_->collective(type, results, how.root, how.reduction, starts);
}

std::string CpuBackend::text_to_check(c10d::OpType type, at::TensorList results, const How& how) const {
  if (!checks_calls_) return "";
  const at::TensorList tensors = how.alike.empty() ? results : how.alike;
  if (!how.any_shape) return call_text(type, tensors, how.reduction, how.root);
  return fmt::format("{} of {}", call_text(type, {}, nullptr, -1), c10::toString(tensors.front().scalar_type()));
}

// On this thread. False: others are before it, and nothing was done.
bool CpuBackend::at_once(c10d::OpType type, at::TensorList results, const How& how, StepsRef steps) {
  TORCH_CHECK(!in_forked_child(), "dtrain: collectives do not work in a process forked from rank ", getRank());
  OperationQueue::Lock lock(mutex_);
  if (!formed_ || !queue_->is_free()) return false;
  ++called_;
  const FlightNotes::Ticket flight = note_call(type, results, how, true);
  std::exception_ptr error;
  queue_->occupy(lock, [&] { error = run(steps, how.timeout, flight, text_to_check(type, results, how)); });
  if (error) std::rethrow_exception(error);
  return true;
}

CpuBackend::Steps CpuBackend::in_turn(std::vector<Steps> each) {
  return [each = std::move(each)](Timeout timeout) {
    for (const Steps& steps : each) steps(timeout);
  };
}

CpuBackend::WorkPtr CpuBackend::enqueue(c10d::OpType type, Tensors results, How how, Steps run) {
  TORCH_CHECK(!in_forked_child(), "dtrain: collectives do not work in a process forked from rank ", getRank());
  auto task = std::make_unique<Task>(*this);
  task->run = std::move(run);
  task->timeout = limited(how.timeout);
  task->to_check = text_to_check(type, results, how);
  Tensors shared = share(results);
  OperationQueue::Lock lock(mutex_);
  TORCH_CHECK(!queue_->stops(), "dtrain: a collective was called after the session was shut down");
  const bool room = queue_->wait_for_room(lock, task->timeout);
  TORCH_CHECK(room && !queue_->stops(), "dtrain: ", OperationQueue::kMaxQueued, " collectives are waiting already");
  check_formed();
  ++called_;
  task->work = c10::make_intrusive<CpuWork>(getRank(), type, std::move(shared), called_, task->timeout);
  WorkPtr work = task->work;
  const bool waits = how.async || !queue_->is_free();
  task->flight = note_call(type, results, how, !waits);
  if (waits) {
    queue_->push(std::move(task));
  } else {
    // Nobody has the Work yet, or could hang callbacks on it: no way is to be made.
    queue_->occupy(lock, [this, own = std::move(task)] { carry_out(*own, [] {}); });
  }
  return work;
}

template <class Held>
auto CpuBackend::all_reduce_steps(Held tensor, const c10d::ReduceOp& op) {
  const ElementType type = element_type(tensor);
  const Reduction reduction = reduction_of(op, tensor);
  return [=, this](Timeout timeout) {
    in_place(tensor, [&](const at::Tensor& t) {
      group_->all_reduce(bytes_of(t), static_cast<std::size_t>(t.numel()), type, reduction, timeout);
    });
  };
}

CpuBackend::WorkPtr CpuBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors.front().is_sparse()) return allreduce_sparse(tensors, options);
  const at::Tensor tensor = only_writable(tensors, "all_reduce");
  return enqueue(c10d::OpType::ALLREDUCE, tensors,
                 {options.timeout, options.asyncOp, -1, flight_reduction(options.reduceOp, tensor)},
                 all_reduce_steps(tensor, options.reduceOp));
}

CpuBackend::WorkPtr CpuBackend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1, "dtrain: all_reduce takes one tensor a rank, not ", tensors.size());
  const at::Tensor tensor = tensors.front();
  check_sparse_cpu(tensor);
  const Reduction reduction = reduction_of(options.reduceOp, tensor);
  TORCH_CHECK(reduction == Reduction::sum || reduction == Reduction::avg,
              "dtrain: all_reduce of sparse tensors does only SUM and AVG; call to_dense() first for ",
              name_of(reduction));
  if (getSize() == 1) coalesce_alone(tensor);
  return enqueue(c10d::OpType::ALLREDUCE, tensors, {options.timeout, options.asyncOp, -1, name_of(reduction)},
                 [=, this](Timeout timeout) {
                   all_reduce_sparse({*group_, getRank(), getSize(), timeout}, tensor, reduction);
                 });
}

void CpuBackend::all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (tensor.is_sparse()) {
    Tensors one{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    options.asyncOp = false;
    allreduce(one, options)->wait();
    return;
  }
  check_writable(tensor);
  carry_out_now(c10d::OpType::ALLREDUCE, tensor, {default_timeout(), false, -1, flight_reduction(op, tensor)},
                all_reduce_steps(std::cref(tensor), op));
}

CpuBackend::WorkPtr CpuBackend::allreduce_coalesced(Tensors& inputs, const c10d::AllreduceCoalescedOptions& options) {
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

auto CpuBackend::broadcast_steps(const at::Tensor& tensor, int root) {
  return [=, this](Timeout timeout) {
    in_place(tensor, [&](const at::Tensor& t) { group_->broadcast(bytes_of(t), t.nbytes(), root, timeout); });
  };
}

CpuBackend::WorkPtr CpuBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only_writable(tensors, "broadcast");
  const int root = root_of(options.rootRank, "broadcast");
  return enqueue(c10d::OpType::BROADCAST, tensors, {options.timeout, options.asyncOp, root},
                 broadcast_steps(tensor, root));
}

void CpuBackend::broadcast_now(const at::Tensor& tensor, int root) {
  check_writable(tensor);
  root = root_of(root, "broadcast");
  carry_out_now(c10d::OpType::BROADCAST, tensor, {default_timeout(), false, root}, broadcast_steps(tensor, root));
}

at::Tensor CpuBackend::empty_shared(std::int64_t count, const at::TensorOptions& options) {
  const bool shares = getSize() > 1 && options.device().is_cpu() && count >= 0 && !in_forked_child();
  return shares ? empty_in_arena(count, options.dtype()) : at::empty({count}, options);
}

// The Reducer of torch looks at gradients that are complex as at twice as many real numbers, and for that does what it
// should to a row which it has made itself, but not to one that it was given.
at::Tensor CpuBackend::allocateTensor(long size, at::TensorOptions options) {
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  const bool halves = c10::isComplexType(type) && size >= 0 && size <= std::numeric_limits<long>::max() / 2;
  return halves ? empty_shared(size * 2, options.dtype(c10::toRealValueType(type))) : empty_shared(size, options);
}

auto CpuBackend::barrier_steps() {
  return [this](Timeout timeout) { group_->barrier(timeout); };
}

CpuBackend::WorkPtr CpuBackend::barrier(const c10d::BarrierOptions& options) {
  return enqueue(c10d::OpType::BARRIER, {}, {options.timeout, options.asyncOp}, barrier_steps());
}

void CpuBackend::barrier_now() {
  carry_out_now(c10d::OpType::BARRIER, {}, {default_timeout(), false}, barrier_steps());
}

c10d::ErrorType CpuBackend::getError() {
  const std::lock_guard lock(mutex_);
  return failed_ ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

uint64_t CpuBackend::getSequenceNumberForGroup() {
  const std::lock_guard lock(mutex_);
  return called_;
}

void CpuBackend::abort() {
  if (in_forked_child()) return;
  const std::lock_guard lock(mutex_);
  if (group_) group_->abort();
}

}  // namespace dtrain
