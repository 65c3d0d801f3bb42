#pragma once
// ShmBackend: our CPU collectives as a c10d::Backend, so that ProcessGroup, Reducer and functional collectives use
// them. Operations of all threads are queued and run in the order of the calls, one at a time, by a progress thread, or
// by the caller where nothing is before it and the options say that it waits (asyncOp is false): that saves two
// wake-ups. Each returns a Work whose future carries the output tensors. A callback on that future may start further
// operations and wait for them: another progress thread goes on meanwhile. Tensors must be dense CPU tensors; others
// are refused at the call. A forked child inherits the object and not the thread: there collectives are refused and
// destruction does nothing.
#include <c10/util/FunctionRef.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "strategies/comm/flight.h"
#include "strategies/comm/group.h"
#include "strategies/comm/rank_names.h"
#include "strategies/torch/pch.h"

namespace dtrain {

class ShmBackend : public c10d::Backend {
 public:
  // Collective: every rank of the group. `store` is used only here, and its timeout is what the ranks have to come.
  // `timeout` is that of a collective whose options name none; `names` are what errors call the ranks. Throws as
  // form_group() does.
  ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout,
             RankNames names = {});
  // As leave().
  ~ShmBackend() override;

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& inputs, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& into, Tensors& from, const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& into, Tensors& from,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr alltoall(Tensors& into, Tensors& from, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& into, at::Tensor& from, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  // allreduce, broadcast, _allgather_base, _reduce_scatter_base, alltoall_base with equal parts and barrier as their
  // caller waits for them, without a Work and what that costs: nearly as fast as the group itself. They throw what the
  // operation does. The backend's timeout.
  void all_reduce_now(const at::Tensor& tensor, const c10d::ReduceOp& op);
  void broadcast_now(const at::Tensor& tensor, int root);
  void all_gather_now(const at::Tensor& output, const at::Tensor& input);
  void reduce_scatter_now(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op);
  void all_to_all_now(const at::Tensor& output, const at::Tensor& input);
  void barrier_now();

  // Messages between two ranks: no collectives, at the same time as those and in any number. They match as P2pCore
  // says; a type or a size that does not fit breaks the group with a line that shows both. Each has the backend's
  // timeout from the call on. A Work of recv knows its sourceRank(). Many thousands may be pending (P2p).
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  // The same as their caller waits for them, without a Work. Those that receive return the rank whose message it was.
  void send_now(const at::Tensor& tensor, int to, int tag);
  int recv_now(const at::Tensor& tensor, int from, int tag);
  int recv_any_now(const at::Tensor& tensor, int tag);

  // Tensors in memory that the host's ranks share (arena.h): all_reduce of 8 KiB or more, all ranks' tensors
  // being such, needs no copies. Reducer asks for its buckets' where DDP_DISABLE_COMM_MEM=0 (docs/adr/0610).
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }
  // Not initialised; elsewhere where there is no room. It may outlive the backend.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  // Of what is called from now on, where its options name none. Refused where it is not positive.
  void setTimeout(std::chrono::milliseconds timeout) override;

  const std::string getBackendName() const override { return "dtrain"; }
  c10d::ErrorType getError() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;

  // Break the group on every rank.
  void abort() override;
  // Run the collectives that are queued, end messages that are pending, then stop. No collective: call it after a
  // barrier.
  void shutdown() override;
  // Pending operations fail. No collective.
  void stop();
  // The same, and the others are told that this rank left.
  void leave();

 private:
  struct Task;
  using Timeout = std::chrono::milliseconds;
  struct How {
    Timeout timeout;
    bool async;  // else the caller waits for it
    // What the flight recorder is told besides.
    int root = -1;
    const char* reduction = nullptr;
    // What is the same on all ranks, where the results are not: of these the types and shapes, or the types alone.
    at::TensorList alike{};
    bool any_shape = false;
  };
  using Steps = std::function<void(Timeout)>;
  using StepsRef = c10::function_ref<void(Timeout)>;
  static Steps in_turn(std::vector<Steps> each);
  WorkPtr enqueue(c10d::OpType type, Tensors results, How how, Steps run);
  template <class Some>
  void carry_out_now(c10d::OpType type, at::TensorList results, const How& how, const Some& steps) {
    if (!at_once(type, results, how, steps)) enqueue(type, results.vec(), how, steps)->wait();
  }
  bool at_once(c10d::OpType type, at::TensorList results, const How& how, StepsRef steps);
  std::string text_to_check(c10d::OpType type, at::TensorList results, const How& how) const;
  template <class Action>
  void occupy(std::unique_lock<std::mutex>& lock, Action action);
  // What an operation does once it is its turn, and its checks before that.
  template <class Held>  // a tensor, or a reference to one that its caller keeps
  auto all_reduce_steps(Held tensor, const c10d::ReduceOp& op);
  auto broadcast_steps(const at::Tensor& tensor, int root);
  Steps gather_steps(const Tensors& parts, const at::Tensor& input);
  auto all_gather_steps(const at::Tensor& output, const at::Tensor& input);
  auto reduce_scatter_steps(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op);
  auto all_to_all_steps(const at::Tensor& output, const at::Tensor& input, const std::vector<std::int64_t>& output_rows,
                        const std::vector<std::int64_t>& input_rows);
  auto barrier_steps();
  WorkPtr receive(c10d::OpType type, const Tensors& tensors, int from, int tag);
  int receive_now(c10d::OpType type, const at::Tensor& tensor, int from, int tag);
  WorkPtr message(c10d::OpType type, const at::Tensor& tensor, P2p::Call call, std::function<void()> finish,
                  const std::function<P2p::Id(P2p&, P2p::Call)>& post);
  template <class Carry>
  int message_now(c10d::OpType type, const at::Tensor& tensor, const P2p::Call& call, const Carry& carry);
  std::shared_ptr<CommGroup> group_for_message();
  FlightRing::Ticket note_message(c10d::OpType type, const at::Tensor& tensor, const P2p::Call& call);
  std::exception_ptr end_message(const FlightRing::Ticket& flight, std::exception_ptr error);
  void know_name();
  void note_failure();
  void start_thread();
  void progress_loop();
  bool make_way();
  bool carry_out(std::unique_ptr<Task> task);
  std::exception_ptr run(StepsRef steps, Timeout timeout, const FlightRing::Ticket& flight,
                         const std::string& to_check);
  FlightRing::Ticket note_call(c10d::OpType type, at::TensorList tensors, const How& how, bool starts);
  void stop_threads();

  bool in_forked_child() const;
  int root_of(std::int64_t rank, const char* op) const;
  int other_rank(int rank, const char* op) const;

  const int process_;
  std::atomic<Timeout> default_timeout_;
  const RankNames names_;
  const bool checks_calls_;
  std::shared_ptr<CommGroup> group_;  // none in a world of one rank
  FlightLog flight_;

  mutable std::mutex mutex_;
  struct Signals {
    std::condition_variable work;
    std::condition_variable room;
  };
  std::unique_ptr<Signals> signals_;  // destroying one in a forked child would wait for the thread
  std::deque<std::unique_ptr<Task>> queue_;
  std::uint64_t enqueued_ = 0;
  bool stopping_ = false;
  bool failed_ = false;
  bool running_ = false;  // an operation
  int idle_ = 0;          // threads that could run the next one
  std::vector<std::thread> threads_;
};

}  // namespace dtrain
