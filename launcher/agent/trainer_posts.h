#pragma once
// The agent of rank 0 tells Kubeflow Trainer how the job does, where the node's environment names its server. On the
// agent's event loop. Tested by test/process/launcher/trainer_test.py.
#include <boost/asio/io_context.hpp>
#include <functional>
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
  TrainerPosts(boost::asio::io_context& io, Parts parts);
  ~TrainerPosts();

  // The core has taken in an event.
  void stepped();
  // The job is over, or was cut off (none). The last post begins, and the file of the progress is gone.
  void close(const std::optional<Outcome>& outcome);
  // After that: waits for the last post for a moment.
  void wait();

 private:
  // Lines of the poster's thread, which may outlive this object.
  struct Notes {
    std::mutex mutex{};
    std::vector<std::string> lines{};
    std::function<void()> more{};  // none: nobody listens any more
  };
  void say_notes();
  void start_poster();
  void drop_file();
  JobMoment moment(std::string state) const;

  const Parts parts_;
  const std::shared_ptr<Notes> notes_ = std::make_shared<Notes>();
  std::unique_ptr<StatusPoster> poster_;  // null: this node does not have rank 0, or nothing can be posted
  bool leads_ = false;
  JobMoment told_{};
  std::string file_{};
};

}  // namespace dtrain::launcher
