#pragma once
// The agent's end of the guard's socket, on the agent's event loop: messages go out in order, however many there are,
// and each answer comes as a callback.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <vector>

#include "launcher/guard/guard_protocol.h"

namespace dtrain::launcher {

class GuardChannel {
 public:
  using OnMessage = std::function<void(ReceivedGuardMessage&)>;
  using OnLost = std::function<void()>;

  // `on_lost` is called once, when the guard is gone. send() calls neither callback itself.
  GuardChannel(boost::asio::io_context& io, UniqueFd socket, OnMessage on_message, OnLost on_lost);

  // Queue a message and keep its descriptors until it is sent. The queue is bounded by what one round asks for.
  void send(const GuardMessage& message, std::vector<UniqueFd> fds = {});
  // Hang up: the guard then kills what is left and ends.
  void close();

 private:
  struct Outgoing {
    GuardMessage message;
    std::vector<UniqueFd> fds;
  };

  void receive();
  bool read();
  void flush();
  void retry_soon();
  void lost();

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer retry_;
  OnMessage on_message_;
  OnLost on_lost_;
  std::deque<Outgoing> outgoing_;
  bool waiting_to_send_ = false;
};

}  // namespace dtrain::launcher
