#pragma once
// Posts a job's status to the server of Kubeflow Trainer that the node's environment names (post_core.h says when), on
// a thread of its own: neither a slow server nor a slow name service or file system keeps the agent from anything.
// Tested by test/process/launcher/trainer_test.py.
#include <memory>
#include <optional>
#include <string>

#include "launcher/job/job_spec.h"
#include "launcher/progress/post_core.h"
#include "rendezvous/base/say.h"

namespace dtrain::launcher {

class StatusPoster {
 public:
  // `note` is called on the poster's thread, perhaps after the end of this object.
  // An error if there can be no poster.
  static Result<std::unique_ptr<StatusPoster>> start(StatusServer server, Say note);
  // Waits for nothing: the thread drops what is under way, and ends.
  ~StatusPoster();
  StatusPoster(const StatusPoster&) = delete;
  StatusPoster& operator=(const StatusPoster&) = delete;

  // From the agent of rank 0. `progress_file`: of this round's rank 0.
  void job(JobMoment moment, std::string progress_file);
  // The last word begins its way, and with it what the progress file says at the end; none: there is no file.
  void finish(JobMoment last, std::optional<Result<Progress>> progress);
  // Whether the last word has been posted, or cannot be, after `patience` at most.
  bool wait(Duration patience);

 private:
  class Loop;
  explicit StatusPoster(std::shared_ptr<Loop> loop) : loop_(std::move(loop)) {}

  const std::shared_ptr<Loop> loop_;  // the thread's too
};

// What the file says; none: it is not there, or nothing is in it yet.
std::optional<Result<Progress>> read_progress_file(const std::string& path);

}  // namespace dtrain::launcher
