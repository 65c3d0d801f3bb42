#pragma once
// Accepts connections at a listening socket on an event loop: a few a turn, since others wait for the loop too. Where
// the process has no descriptor left for a connection, the backlog is left alone for a moment: a listener that stays
// readable would spin.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain {

class Acceptor {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Options {
    int most_a_turn = 16;
    // How long the backlog is left alone when there is no descriptor or no memory for a connection.
    std::chrono::milliseconds try_again{100};
    // A new connection: non-blocking, close-on-exec. The callback may pause the acceptor.
    std::function<void(UniqueFd)> accepted;
    // There is no descriptor or no memory for a connection. True: the callback has made room, accept again at once.
    // Empty: nobody can make room.
    std::function<bool(const Error&)> no_room{};
    // The connections of a turn have been accepted. May be empty.
    std::function<void()> turn{};
  };

  // `listener`: a listening, non-blocking socket. Nothing is accepted before resume(). No callback may destroy the
  // acceptor.
  Acceptor(boost::asio::io_context& io, boost::asio::posix::stream_descriptor listener, Options options)
      : listener_(std::move(listener)), again_(io), options_(std::move(options)) {}
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Accept nothing more, until resume() or the given time.
  void pause();
  void pause_until(Time when);
  // Accept. Harmless if nothing is paused.
  void resume();

 private:
  void wait();
  void accept_ready();
  bool accept_one();
  bool no_room(int error);

  boost::asio::posix::stream_descriptor listener_;
  boost::asio::steady_timer again_;
  const Options options_;
  bool paused_ = true;
  bool waits_ = false;
  // Handlers that are already on their way when the acceptor goes must not touch it.
  const std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

}  // namespace dtrain
