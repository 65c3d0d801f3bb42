#pragma once
// ShmBackend: our CPU collectives as a c10d::Backend, so that ProcessGroup, Reducer and functional collectives use
// them. Operations of all threads are queued and run in the order of the calls by one progress thread; each returns a
// Work whose future carries the output tensors. Tensors must be dense CPU tensors; others are refused at the call. A
// forked child inherits the object and not the thread: there collectives are refused and destruction does nothing.
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "strategies/comm/shm_group.h"
#include "strategies/torch/pch.h"

namespace dtrain {

class ShmBackend final : public c10d::Backend {
 public:
  // Collective: every rank of the group. `store` is used only here, and its timeout is what the ranks have to come.
  // `timeout` is that of a collective whose options name none. Throws as ShmGroup does.
  ShmBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, std::chrono::milliseconds timeout);
  // As leave().
  ~ShmBackend() override;

  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  const std::string getBackendName() const override { return "dtrain_shm"; }
  c10d::ErrorType getError() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;

  // Break the group on every rank.
  void abort() override;
  // Run what is queued, then stop. No collective: call it after a barrier.
  void shutdown() override;
  // Pending operations fail, and the others are told that this rank left. No collective.
  void leave();

 private:
  struct Task;
  using Timeout = std::chrono::milliseconds;
  WorkPtr enqueue(c10d::OpType type, Tensors results, Timeout timeout, std::function<void(Timeout)> run);
  void progress_loop();
  std::exception_ptr run(const Task& task);
  void stop_thread();

  bool in_forked_child() const;

  const int process_;
  const Timeout default_timeout_;
  std::unique_ptr<ShmGroup> group_;  // none in a world of one rank

  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> changed_;  // destroying one in a forked child would wait for the thread
  std::deque<std::unique_ptr<Task>> queue_;
  std::uint64_t enqueued_ = 0;
  bool stopping_ = false;
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace dtrain
