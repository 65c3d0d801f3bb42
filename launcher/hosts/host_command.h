#pragma once
// The command on one host, and the pipe to its standard input.
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/hosts/pipe_writer.h"
#include "launcher/process/stream_ends.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

class HostCommand {
 public:
  // `ended`: with its exit code, or minus the signal that has killed it. It may destroy nothing.
  HostCommand(boost::asio::io_context& io, std::function<void(int status)> ended);

  // `descriptors`: its limit of them. `dies_with_us`: it is killed when this process dies; else it hears the end of its
  // input. Error: it cannot be started.
  Result<void> start(const std::vector<std::string>& words, StreamEnds output, rlimit descriptors, bool dies_with_us);
  void send(std::string_view bytes) { input_.send(bytes); }
  // What waits for its input yet.
  std::size_t unsent() const { return input_.unsent(); }
  void close_input() { input_.close(); }
  // With all that it has started, such as ssh's ProxyCommand.
  void kill();
  bool is_running() const { return pid_ > 0; }

 private:
  void reap();

  std::function<void(int)> ended_;
  PipeWriter input_;  // one that has ended reads nothing, which its pidfd tells
  boost::asio::posix::stream_descriptor pidfd_;
  pid_t pid_ = -1;
};

}  // namespace dtrain::launcher
