#pragma once
// The background thread of a Context: goes through cycles of Negotiation with the other ranks' threads, and reduces
// what they agree on.
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "strategies/horovod/negotiation_core.h"
#include "strategies/horovod/reduction.h"
#include "strategies/session/process_groups.h"

namespace dtrain::hvd {

class Engine {
 public:
  // Collective. `settings` are those of rank 0 afterwards.
  Engine(const FormedGroup& group, Settings settings);
  // Ends all ranks' engines.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // All or none, since a part of a group would wait for ever. `members`: how many the group has on each rank, here and
  // in other calls.
  std::vector<Handle> submit(const std::vector<at::Tensor>& tensors, const std::vector<std::string>& names,
                             const ReduceOptions& options, const std::string& group = {}, std::int64_t members = 0);
  int join();

  int rank() const { return group_.group->getRank(); }
  int ranks() const { return group_.group->getSize(); }
  // A number for each user of this engine, in the order they came.
  int next_user() { return users_++; }
  bool in_forked_child() const;

 private:
  void loop();
  bool cycle();
  void wait_for_work();
  Negotiation::Outcome negotiate();
  void reduce(const std::vector<Request>& ready);
  void finish(const Negotiation::Outcome& outcome);
  void arrive(const std::vector<Reduction*>& members, const std::shared_ptr<const Handle::Arrival>& arrival);
  void end(const std::exception_ptr& error);

  const int process_;
  FormedGroup group_;
  const Settings settings_;
  std::unique_ptr<Timeline> timeline_;
  Fusion fusion_;
  int users_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;     // the thread
  std::condition_variable changed_;  // who waits for it
  Negotiation core_;
  std::map<std::string, std::unique_ptr<Reduction>> pending_;
  std::exception_ptr over_;
  bool leaves_ = false;
  bool joins_ = false;
  std::optional<int> joined_last_;
  bool ended_ = false;
  Negotiation::Moment last_cycle_{};
  std::thread thread_;
};

}  // namespace dtrain::hvd
