#include "rendezvous/net/acceptor.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

void Acceptor::pause() {
  paused_ = true;
  again_.cancel();
}

void Acceptor::pause_until(Time when) {
  paused_ = true;
  again_.expires_at(when);
  again_.async_wait([this, alive = std::weak_ptr(lives_)](const boost::system::error_code& ec) {
    if (!alive.expired() && !ec) resume();
  });
}

void Acceptor::resume() {
  if (!std::exchange(paused_, false)) return;
  again_.cancel();
  wait();
}

void Acceptor::wait() {
  if (std::exchange(waits_, true)) return;
  listener_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, alive = std::weak_ptr(lives_)](const boost::system::error_code& ec) {
                         if (alive.expired()) return;
                         waits_ = false;
                         if (!ec && !paused_) accept_ready();
                       });
}

void Acceptor::accept_ready() {
  for (int i = 0; i < options_.most_a_turn && !paused_; ++i) {
    if (!accept_one()) break;
  }
  if (options_.turn) options_.turn();
  if (!paused_) wait();
}

// False: nothing more can be accepted now.
bool Acceptor::accept_one() {
  UniqueFd fd(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) {
    options_.accepted(std::move(fd));
    return true;
  }
  switch (errno) {
    case EAGAIN:
      return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return no_room(errno);
    default:
      return true;  // the peer has left, or the network has failed it
  }
}

bool Acceptor::no_room(int error) {
  // The kernel takes a descriptor before it looks for a connection: there may be none that room is needed for.
  pollfd listener{listener_.native_handle(), POLLIN, 0};
  if (::poll(&listener, 1, 0) == 0) return false;
  if (options_.no_room && options_.no_room(system_error("cannot accept a connection", error))) return true;
  pause_until(std::chrono::steady_clock::now() + options_.try_again);
  return false;
}

}  // namespace dtrain
