#pragma once
// The agent of rank 0 tells Kubeflow Trainer how the job does, where the node's environment names its server. On the
// agent's event loop. Tested by test/process/launcher/trainer_test.py.
#include <boost/asio/io_context.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "launcher/evidence/worker_table.h"
#include "launcher/job/group_core.h"
#include "launcher/progress/status_poster.h"

namespace dtrain::launcher {

class TrainerPosts {
 public:
  // All parts outlive this object.
  struct Parts {
    const JobSpec& spec;
    const GroupCore& core;
    const WorkerTable& workers;
    const Say& say;
  };
  TrainerPosts(boost::asio::io_context& io, Parts parts) : io_(io), parts_(parts) {}

  // The core has taken in an event.
  void stepped();
  // The job is over, or was cut off (none). Waits for the last post for a moment.
  void close(const std::optional<Outcome>& outcome);

 private:
  // Lines of the poster's thread.
  struct Notes {
    std::mutex mutex{};
    std::vector<std::string> lines{};
  };
  void say_notes();
  std::unique_ptr<StatusPoster> new_poster();
  JobMoment moment(std::string state) const;

  boost::asio::io_context& io_;
  const Parts parts_;
  const std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  std::unique_ptr<StatusPoster> poster_;  // null: this node does not have rank 0
  JobMoment told_{};
  std::string file_{};
};

}  // namespace dtrain::launcher
