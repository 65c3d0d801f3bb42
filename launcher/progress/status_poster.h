#pragma once
// Posts a job's status to the server of Kubeflow Trainer that the node's environment names (post_core.h says when), on
// a thread of its own: neither a slow server nor a slow name service keeps the agent from anything.
// Tested by test/process/launcher/trainer_test.py.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <thread>

#include "launcher/job/job_spec.h"
#include "launcher/progress/post_core.h"
#include "rendezvous/base/say.h"
#include "rendezvous/http/https_post.h"

namespace dtrain::launcher {

class StatusPoster {
 public:
  // `note` is called on the poster's thread.
  StatusPoster(StatusServer server, Say note);
  // What is under way is dropped.
  ~StatusPoster();
  StatusPoster(const StatusPoster&) = delete;
  StatusPoster& operator=(const StatusPoster&) = delete;

  // From the agent of rank 0. `progress_file`: of this round's rank 0; what it says last of the round before was read.
  void job(JobMoment moment, std::string progress_file);
  // Waits until the last word is posted, for `patience` at most. The file of the progress is gone then.
  void finish(JobMoment last, Duration patience);

 private:
  struct FileState {
    std::int64_t seconds = 0, nanoseconds = 0, bytes = -1;
    bool operator==(const FileState&) const = default;
  };
  void read_progress();
  void drop_file();
  void look_again();
  void step();
  void send(std::string body);
  void over(const Result<void>& result);

  const StatusServer server_;
  const Say note_;
  std::optional<HttpsPlace> place_{};
  boost::asio::io_context io_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_{io_.get_executor()};
  PostCore core_{};
  std::string file_{};
  FileState seen_{};
  boost::asio::steady_timer look_timer_{io_};
  boost::asio::steady_timer due_timer_{io_};
  boost::asio::steady_timer last_timer_{io_};
  HttpsPost post_{io_};
  bool finishing_ = false;
  std::thread thread_{};
};

}  // namespace dtrain::launcher
