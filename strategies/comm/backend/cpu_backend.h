#pragma once
// CpuBackend: the group of this job's ranks on CPU tensors (groups/group.h) as a c10d::Backend, so that ProcessGroup,
// Reducer and functional collectives use it. Operations of all threads are queued and run in the order of the calls,
// one at a time (operation_queue.h), by a progress thread, or by the caller where nothing is before its operation and
// the options say that it waits (asyncOp is false): that saves two wake-ups. Each returns a Work whose future carries
// the output tensors. A callback on that future may start further operations and wait for them: another progress thread
// goes on meanwhile. Tensors are CPU tensors, dense ones of any strides, but for allreduce_sparse; others are refused
// at the call. A forked child inherits the object and not the threads: there collectives are refused, and shutdown,
// abort and destruction do nothing.
#include <c10/util/FunctionRef.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "strategies/comm/backend/flight_notes.h"
#include "strategies/comm/backend/operation_queue.h"
#include "strategies/comm/backend/store_meeting.h"
#include "strategies/comm/base/rank_names.h"
#include "strategies/comm/groups/group.h"
#include "strategies/comm/messages/p2p.h"
#include "strategies/torch/compat.h"

namespace dtrain {

class CpuBackend : public c10d::Backend {
 public:
  // Collective: every rank of the group. `store` is used only here, and its timeout is what the ranks have to come.
  // `timeout` is that of a collective whose options name none; `names` are what errors call the ranks. Throws as
  // form_group() does.
  CpuBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout,
             RankNames names = {});
  using StorePtr = c10::intrusive_ptr<c10d::Store>;
  using OptionsPtr = c10::intrusive_ptr<Options>;
  struct Setup {
    OptionsPtr options;  // kept, and asked at each call: getBackendOptions()
    RankNames names{};
    std::optional<std::chrono::milliseconds> join_timeout{};  // for the ranks to come; none: the store's
    StorePtr later{};                                         // where reconfigure() meets; none: `store`
  };
  static OptionsPtr options_with(std::chrono::milliseconds timeout);
  // The same. With options->enable_reconfigure no collective: the group forms with its first reconfigure().
  CpuBackend(const StorePtr& store, int rank, int size, Setup setup);
  // The same for a store where the ranks may have met before: under fresh keys.
  template <class Kind>
  static c10::intrusive_ptr<Kind> join(const StorePtr& store, int rank, int size, Setup setup) {
    if (!setup.later) setup.later = store;
    const bool later = is_formed_later(*setup.options);
    const StorePtr keys = later ? store : fresh_keys(store, rank, size, setup.join_timeout);
    return c10::make_intrusive<Kind>(keys, rank, size, std::move(setup));
  }
  // As leave().
  ~CpuBackend() override;

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Of a COO tensor: SUM, or AVG, which counts what a rank has not as zero. It becomes coalesced, with the places of
  // all ranks. allreduce() takes such tensors too.
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& inputs, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& into, Tensors& from, const c10d::AllgatherOptions& options) override;
  // Parts may differ in size, which is the same on all ranks; `outputs` holds one tensor of this rank's part's size.
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
  // As dtrain::monitored_barrier(), on the calling thread and beside what is queued.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

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
  // being such, needs no copies. Not initialised; elsewhere where there is no room. It may outlive the backend.
  at::Tensor empty_shared(std::int64_t count, const at::TensorOptions& options);
  // The same for torch's Reducer, which asks for its buckets where DDP_DISABLE_COMM_MEM=0 (docs/adr/0610): in place of
  // complex numbers it gets twice as many real ones.
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

  // Of what is called from now on, where its options name none. Refused where it is not positive.
  void setTimeout(std::chrono::milliseconds timeout) override;
  // The group's own: who changes their timeout changes that of later calls.
  c10::intrusive_ptr<Options> getBackendOptions() DTRAIN_OVERRIDE_2_15 { return options_; }
  // From now on a Work knows how long its operation took (CpuWork::getDuration).
  void enableCollectivesTiming() override { times_ = true; }

  // Further groups, of some of these ranks or with others. Collectives of the ranks that will be in them, which have
  // until the timeout of `options` to come; other ranks get null from split(), and need not call it. `store` has keys
  // for this group alone; `options` are copied. A group that fails leaves the other whole.
  bool supportsSplitting() const DTRAIN_OVERRIDE_2_15 { return true; }
  c10::intrusive_ptr<Backend> split(const StorePtr& store, const std::vector<int>& ranks,
                                    const OptionsPtr& options) DTRAIN_OVERRIDE_2_15;
  c10::intrusive_ptr<Backend> merge(const StorePtr& store, const OptionsPtr& options, const int& rank,
                                    const int& size) DTRAIN_OVERRIDE_2_15;

#if DTRAIN_TORCH_AT_LEAST(2, 15)
  // The group forms anew, of the ranks that gave these handles: of those that are left of it after a failure, say, and
  // of others whose backends were made with enable_reconfigure. In the order of the list; a set is ordered by their
  // ranks before. What is pending fails, and ranks that are left out hear that this one left. Collective of the new
  // group; the Work that comes back is complete. A rank has another handle after each reconfigure(). Throws c10::Error,
  // with nothing changed, where this rank's handle is not among them; what form_group() does, and then the group can
  // only be reconfigured again.
  bool supportsReconfigure() const override { return true; }
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  WorkPtr reconfigure(const c10d::ReconfigureOptions& options) override;
#endif

  bool spans_hosts() const { return group_ && group_->spans_hosts(); }

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

 protected:
  // A backend of the same kind for split() and merge().
  virtual c10::intrusive_ptr<CpuBackend> another(const StorePtr& store, int rank, int size, Setup setup) const;

 private:
  class Task;
  using Timeout = std::chrono::milliseconds;
  Timeout default_timeout() const;
  Timeout limited(Timeout timeout) const;
  Setup setup_for(const std::vector<int>& ranks, const OptionsPtr& options) const;
  c10::intrusive_ptr<CpuBackend> further(const StorePtr& store, int rank, int size, Setup setup) const;
  void form(const StorePtr& keys, Timeout join_timeout);
  void dissolve();
  void check_formed() const;
  struct How {
    Timeout timeout;
    bool async;  // else the caller waits for it
    // The flight recorder is told these too.
    int root = -1;
    const char* reduction = nullptr;
    // These tensors are the same on all ranks, where the results are not: their types and shapes, or the types alone.
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
  void carry_out(Task& task, const OperationQueue::MakeWay& make_way);
  std::exception_ptr run(StepsRef steps, Timeout timeout, const FlightNotes::Ticket& flight,
                         const std::string& to_check);
  FlightNotes::Ticket note_call(c10d::OpType type, at::TensorList results, const How& how, bool starts);
  // What an operation does once it is its turn, and its checks before that.
  template <class Held>  // a tensor, or a reference to one that its caller keeps
  auto all_reduce_steps(Held tensor, const c10d::ReduceOp& op);
  auto broadcast_steps(const at::Tensor& tensor, int root);
  Steps gather_steps(const Tensors& parts, const at::Tensor& input);
  auto all_gather_steps(const at::Tensor& output, const at::Tensor& input);
  void reduce_each(const Tensors& parts, const at::Tensor& output, Reduction reduction, Timeout timeout);
  auto reduce_scatter_steps(const at::Tensor& output, const at::Tensor& input, const c10d::ReduceOp& op);
  auto all_to_all_steps(const at::Tensor& output, const at::Tensor& input, const std::vector<std::int64_t>& output_rows,
                        const std::vector<std::int64_t>& input_rows);
  auto barrier_steps();
  WorkPtr receive(c10d::OpType type, const Tensors& tensors, int from, int tag);
  int receive_now(c10d::OpType type, const at::Tensor& tensor, int from, int tag);
  WorkPtr message(c10d::OpType type, const at::Tensor& tensor, P2p::Request request, std::function<void()> finish,
                  const std::function<P2p::Id(P2p&, P2p::Request)>& post);
  template <class Carry>
  int message_now(c10d::OpType type, const at::Tensor& tensor, const P2p::Request& request, const Carry& carry);
  std::shared_ptr<CommGroup> group_for_message();
  std::exception_ptr ended(const FlightNotes::Ticket& flight, const std::exception_ptr& error);
  void note_failure();

  bool in_forked_child() const;
  int root_of(std::int64_t rank, const char* op) const;
  int other_rank(int rank, const char* op) const;

  const int process_;
  const OptionsPtr options_;
  RankNames names_;
  const bool checks_calls_;
  StorePtr store_;  // for reconfigure()
  const std::uint64_t identity_;
  std::int64_t uuid_ = -1;  // of the last reconfigure()
  std::atomic<bool> times_{false};
  std::shared_ptr<CommGroup> group_;     // none in a world of one rank
  std::unique_ptr<FlightNotes> flight_;  // none before the group has formed

  mutable std::mutex mutex_;
  std::unique_ptr<OperationQueue> queue_;  // left alone in a forked child: its threads are not there
  std::uint64_t called_ = 0;               // collectives
  bool failed_ = false;
  bool formed_ = false;  // else there is no group: before the first reconfigure(), or one that failed
};

}  // namespace dtrain
