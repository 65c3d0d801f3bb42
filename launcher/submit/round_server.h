#pragma once
// The rounds and the store of a job that outlives any of its nodes: in a process beside the submitter, which goes on
// while the submitter is stopped (Ctrl-Z), and ends with it. Tested by test/process/clusters/ray_test.py.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/credentials/link_credential.h"

namespace dtrain::launcher {

class RoundServer {
 public:
  // Forks: call with one thread. `port` 0: any free one.
  static Result<std::unique_ptr<RoundServer>> start(const LinkCredential& credential, std::uint16_t port);
  ~RoundServer();
  RoundServer(const RoundServer&) = delete;
  RoundServer& operator=(const RoundServer&) = delete;

  std::uint16_t port() const { return port_; }
  // From then on its end is told. Without it there is no job.
  void watch(boost::asio::io_context& io, std::function<void()> ended);

 private:
  RoundServer(pid_t pid, UniqueFd pidfd, std::uint16_t port) : pid_(pid), pidfd_(std::move(pidfd)), port_(port) {}

  pid_t pid_;
  UniqueFd pidfd_;
  std::uint16_t port_;
  std::unique_ptr<boost::asio::posix::stream_descriptor> watched_{};
};

}  // namespace dtrain::launcher
