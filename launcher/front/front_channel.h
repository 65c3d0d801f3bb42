#pragma once
// What the agent is asked to do from outside, on its event loop: the front's messages and the signals that were sent to
// the agent itself. Each request is told once, whichever way it came.
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

#include "launcher/front.h"
#include "launcher/job_spec.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class FrontLink {
 public:
  struct Callbacks {
    std::function<void(int signal)> stop;           // the job is to end
    std::function<void(int signal)> pass;           // for the workers
    std::function<void(int signal)> to_everything;  // SIGSTOP, SIGCONT: for all that runs
    std::function<void()> child_changed;            // SIGCHLD: a child of the agent's ended or stopped
    std::function<void()> lost;                     // the front is gone; nothing comes any more
  };

  FrontLink(boost::asio::io_context& io, UniqueFd socket, const JobSpec& spec, Callbacks callbacks);

  // From now on. Throws boost::system::system_error when no descriptor is left.
  void watch();
  // Tell now of the signals that have come; otherwise the event loop does.
  void read_signals();
  // The attached worker was stopped by this signal of the terminal.
  void attached_stopped(pid_t pid, int signal);

 private:
  void watch_signals();
  void watch_front();
  void read_front();
  void stop(int signal);
  bool is_stop(int signal) const;

  const JobSpec& spec_;
  Callbacks callbacks_;
  boost::asio::posix::stream_descriptor front_;
  boost::asio::posix::stream_descriptor signals_;
  int direct_stop_ = 0;  // a stop signal that was sent to the agent itself; -1: such a one counts no more
};

}  // namespace dtrain::launcher
