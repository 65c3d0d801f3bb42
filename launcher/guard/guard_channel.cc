#include "launcher/guard/guard_channel.h"

#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>

namespace dtrain::launcher {

namespace asio = boost::asio;
using Wait = asio::posix::stream_descriptor::wait_type;

GuardChannel::GuardChannel(asio::io_context& io, UniqueFd socket, OnMessage on_message, OnLost on_lost)
    : socket_(io, socket.release()), retry_(io), on_message_(std::move(on_message)), on_lost_(std::move(on_lost)) {
  receive();
}

void GuardChannel::send(const GuardMessage& message, std::vector<UniqueFd> fds) {
  if (!socket_.is_open()) return;
  outgoing_.push_back({message, std::move(fds)});
  if (!waiting_to_send_) flush();
}

void GuardChannel::flush() {
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
      // Without the guard the job is over. The guard kills everything when the agent hangs up, and it may have said why
      // it cannot go on.
      boost::asio::post(socket_.get_executor(), [this] {
        if (socket_.is_open() && read()) lost();
      });
      return;
    }
    outgoing_.pop_front();
  }
}

// The kernel has too much under way (descriptors in flight, buffers) and the guard is reading it.
void GuardChannel::retry_soon() {
  constexpr auto kRetry = std::chrono::milliseconds(5);
  waiting_to_send_ = true;
  retry_.expires_after(kRetry);
  retry_.async_wait([this](const boost::system::error_code& ec) {
    waiting_to_send_ = false;
    if (!ec && socket_.is_open()) flush();
  });
}

void GuardChannel::receive() {
  socket_.async_wait(Wait::wait_read, [this](const boost::system::error_code& ec) {
    if (!ec && read()) receive();
  });
}

// Hand out all messages that have come. False: no more can come.
bool GuardChannel::read() {
  ReceivedGuardMessage received;
  while (socket_.is_open()) {
    switch (receive_guard_message(socket_.native_handle(), received)) {
      case Receive::again:
        return true;
      case Receive::closed:
        lost();
        return false;
      case Receive::message:
        on_message_(received);
    }
  }
  return false;
}

void GuardChannel::lost() {
  close();
  on_lost_();
}

void GuardChannel::close() {
  outgoing_.clear();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace dtrain::launcher
