#pragma once
// An agent's connection to the agent that hosts the rounds. One attempt to connect; its owner decides about another.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/round_channel.h"

namespace dtrain {

class RoundLink {
 public:
  struct Callbacks {
    std::function<void(const RoundMessage&)> message;
    // The connection is gone; `joined`: after the host had answered. Else the reason says what is there instead.
    std::function<void(bool joined, const std::string& reason)> lost;
  };

  RoundLink(boost::asio::io_context& io, Callbacks callbacks) : io_(io), callbacks_(std::move(callbacks)), hello_(io) {}
  ~RoundLink() { close(); }
  RoundLink(const RoundLink&) = delete;
  RoundLink& operator=(const RoundLink&) = delete;

  // Connect to an address of this host and say Join. An error: nobody listens there (ECONNREFUSED), or worse. What
  // listens must answer in the protocol within three seconds and belong to this user, else `lost` is called.
  Result<void> connect(const std::string& address, std::uint16_t port, const NodeInfo& node);
  void send(const RoundMessage& message);
  bool joined() const { return joined_; }
  void close();

 private:
  void received(const RoundMessage& message);
  void lost(const std::string& reason);
  Result<void> check_owner();

  boost::asio::io_context& io_;
  Callbacks callbacks_;
  boost::asio::steady_timer hello_;
  std::shared_ptr<RoundChannel> channel_;
  bool joined_ = false;
};

}  // namespace dtrain
