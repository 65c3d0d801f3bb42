#pragma once
// The rounds of one job, hosted by one of its agents, on that agent's event loop: connections in, RoundCore's actions
// out. Its port is the worker store's: the store hands over the connections that begin with kRoundGreeting. No timer
// runs while the job does.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "rendezvous/base/clock.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/round_channel.h"
#include "rendezvous/round_core.h"

namespace dtrain {

class RoundHost {
 public:
  // fresh_store: forget every key; when it returns the store serves the next round.
  RoundHost(boost::asio::io_context& io, RoundSettings settings, std::function<void()> fresh_store);
  ~RoundHost();
  RoundHost(const RoundHost&) = delete;
  RoundHost& operator=(const RoundHost&) = delete;

  // A new connection, with the bytes that were read from it.
  void adopt(UniqueFd socket, const std::string& received);
  // The host leaves: end the job if it has not ended.
  void close(const Verdict& verdict);
  // Every agent has gone.
  bool empty() const { return channels_.empty(); }
  // Called when empty() has become true.
  std::function<void()> on_empty;

 private:
  struct Peer {
    std::shared_ptr<RoundChannel> channel;
    std::unique_ptr<boost::asio::steady_timer> greeting;  // until it has joined
  };

  void received(MemberId id, const RoundMessage& message);
  void closed(MemberId id);
  void drop(MemberId id);
  void perform(const std::vector<RoundAction>& actions);
  void arm();

  boost::asio::io_context& io_;
  SteadyClock clock_;
  RoundCore core_;
  std::function<void()> fresh_store_;
  boost::asio::steady_timer timer_;
  std::map<MemberId, Peer> channels_;
  MemberId last_id_ = 0;
};

}  // namespace dtrain
