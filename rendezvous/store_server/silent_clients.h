#pragma once
// Clients of a store that have not greeted yet, the longest silent first. Each has the same time for it, so one timer
// serves all.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <utility>

#include "rendezvous/store/store_core.h"

namespace dtrain {

class SilentClients {
 public:
  struct Silent {
    ConnectionId id;
    std::chrono::steady_clock::time_point deadline;
  };
  using Place = std::list<Silent>::iterator;

  // `late` is called with a client whose time is over, and removes it.
  SilentClients(boost::asio::io_context& io, std::chrono::milliseconds time, std::function<void(ConnectionId)> late)
      : timer_(io), time_(time), late_(std::move(late)) {}

  Place add(ConnectionId id) {
    clients_.push_back({id, std::chrono::steady_clock::now() + time_});
    arm();
    return std::prev(clients_.end());
  }
  void remove(Place place) { clients_.erase(place); }

  std::size_t size() const { return clients_.size(); }
  bool empty() const { return clients_.empty(); }
  ConnectionId longest() const { return clients_.front().id; }

 private:
  // The timer runs on when the client that it was set for has greeted: most greet long before.
  void arm() {
    if (clients_.empty() || std::exchange(armed_, true)) return;
    timer_.expires_at(clients_.front().deadline);
    timer_.async_wait([this](const boost::system::error_code& aborted) {
      armed_ = false;
      if (!aborted) close_late();
    });
  }

  void close_late() {
    const auto now = std::chrono::steady_clock::now();
    while (!clients_.empty() && clients_.front().deadline <= now) late_(clients_.front().id);
    arm();
  }

  boost::asio::steady_timer timer_;
  const std::chrono::milliseconds time_;
  const std::function<void(ConnectionId)> late_;
  std::list<Silent> clients_;
  bool armed_ = false;
};

}  // namespace dtrain
