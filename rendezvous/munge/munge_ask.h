#pragma once
// The other nodes' side of munge_exchange.h: asks the host of the job for its secret. One attempt; its owner decides
// about another.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/munge/munge_async.h"
#include "rendezvous/munge/munge_exchange.h"
#include "rendezvous/net/dial.h"

namespace dtrain {

class MungeAsk {
 public:
  // Errors of connecting are Dial's, with their errno; others have none.
  using Done = std::function<void(Result<JobSecret>)>;

  MungeAsk(boost::asio::io_context& io, Munge munge)
      : dial_(io), socket_(io), deadline_(io), munge_(io, std::move(munge)) {}
  ~MungeAsk() { cancel(); }
  MungeAsk(const MungeAsk&) = delete;
  MungeAsk& operator=(const MungeAsk&) = delete;

  // `done` is called once, never from within, at most ten seconds after a host has answered the call. A start takes the
  // place of the one before.
  void start(const std::vector<std::string>& addresses, std::uint16_t port, const std::string& job, Done done);
  void cancel();

 private:
  void connected(UniqueFd socket);
  void wait_readable();
  void readable();
  void open();
  void finish(const Result<JobSecret>& result);

  Dial dial_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer deadline_;
  MungeAsync munge_;
  MungeAnswer answer_;
  std::string job_;
  Done done_;
  std::uint64_t attempt_ = 0;  // what comes of an earlier one is not for this
};

}  // namespace dtrain
