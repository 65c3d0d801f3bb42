#pragma once
// The agent's end of the front's socket, on the agent's event loop: what the agent is asked to do from outside, by the
// front's messages and by signals that were sent to the agent itself. Each request is told once, whichever way it came.
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <mutex>

#include "launcher/front/front_message.h"
#include "launcher/job/group_core.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/stop_requests.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class FrontChannel {
 public:
  struct Callbacks {
    std::function<void(const event::StopSignal&)> stop;  // the job is to end; once more: at once
    std::function<void(int signal)> pass;                // for the workers
    std::function<void(int number)> suspend;             // stop all processes of the round, then call suspended()
    std::function<void()> resume;                        // continue them
    std::function<void()> child_changed;                 // SIGCHLD: a child of the agent's ended or stopped
    std::function<void()> lost;                          // the front is gone; nothing comes any more
  };

  FrontChannel(boost::asio::io_context& io, UniqueFd socket, const JobSpec& spec, Callbacks callbacks);

  // From now on. Throws boost::system::system_error when no descriptor is left.
  void watch();
  // Tell now of the signals that have come; otherwise the event loop does.
  void read_signals();
  // Whether the front has said that the job is to end, or is gone. Any thread may ask; it takes the front's messages,
  // which the event loop gets later.
  bool asked_to_end();
  // All processes of the round have been told to stop, for the suspension of this number.
  void suspended(int number);
  // The attached worker was stopped by this signal of the terminal.
  void attached_stopped(pid_t pid, int signal);

 private:
  void watch_signals();
  void watch_front();
  void read_front();
  void take(const FrontMessage& message);
  bool front_gone();
  void stop(int signal, bool orphan = false);
  bool is_stop(int signal) const;

  const JobSpec& spec_;
  Callbacks callbacks_;
  boost::asio::posix::stream_descriptor front_;
  boost::asio::posix::stream_descriptor signals_;
  StopRequests requests_;
  std::mutex early_;  // for asked_to_end()
  bool to_end_ = false;
};

}  // namespace dtrain::launcher
