#include "launcher/guard_link.h"

#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>

namespace dtrain::launcher {

namespace asio = boost::asio;
using Wait = asio::posix::stream_descriptor::wait_type;

GuardLink::GuardLink(asio::io_context& io, UniqueFd socket, OnMessage on_message, OnLost on_lost)
    : socket_(io, socket.release()), retry_(io), on_message_(std::move(on_message)), on_lost_(std::move(on_lost)) {
  receive();
}

void GuardLink::send(const GuardMessage& message, std::vector<UniqueFd> fds) {
  if (!socket_.is_open()) return;
  outgoing_.push_back({message, std::move(fds)});
  if (!waiting_to_send_) flush();
}

void GuardLink::flush() {
  while (!outgoing_.empty()) {
    const Outgoing& next = outgoing_.front();
    int fds[kMaxPassedFds];
    for (size_t i = 0; i < next.fds.size(); ++i) fds[i] = next.fds[i].get();
    const int error = send_guard_message(socket_.native_handle(), next.message, fds, next.fds.size());
    if (error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM) {
      retry_soon();
      return;
    }
    if (error == EAGAIN) {
      waiting_to_send_ = true;
      socket_.async_wait(Wait::wait_write, [this](const boost::system::error_code& ec) {
        waiting_to_send_ = false;
        if (!ec) flush();
      });
      return;
    }
    if (error != 0) {
      // The guard cannot be told what to do: without it the job is over, and it kills everything when we hang up.
      boost::asio::post(socket_.get_executor(), [this] {
        if (socket_.is_open()) lost();
      });
      return;
    }
    outgoing_.pop_front();
  }
}

// The kernel has too much under way (descriptors in flight, buffers); the guard is working it off.
void GuardLink::retry_soon() {
  constexpr auto kRetry = std::chrono::milliseconds(5);
  waiting_to_send_ = true;
  retry_.expires_after(kRetry);
  retry_.async_wait([this](const boost::system::error_code& ec) {
    waiting_to_send_ = false;
    if (!ec && socket_.is_open()) flush();
  });
}

void GuardLink::receive() {
  socket_.async_wait(Wait::wait_read, [this](const boost::system::error_code& ec) {
    if (ec) return;
    ReceivedGuardMessage received;
    for (;;) {
      switch (receive_guard_message(socket_.native_handle(), received)) {
        case Receive::again:
          receive();
          return;
        case Receive::closed:
          lost();
          return;
        case Receive::message:
          on_message_(received);
      }
      if (!socket_.is_open()) return;
    }
  });
}

void GuardLink::lost() {
  close();
  on_lost_();
}

void GuardLink::close() {
  outgoing_.clear();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace dtrain::launcher
