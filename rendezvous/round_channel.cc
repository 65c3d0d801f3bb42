#include "rendezvous/round_channel.h"

#include <array>
#include <boost/asio/post.hpp>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

namespace {
constexpr std::size_t kMostUnsent = std::size_t{1} << 20;
}

void RoundChannel::start(Callbacks callbacks, std::string_view received) {
  callbacks_ = std::move(callbacks);
  decoder_.feed(received);
  write(kRoundGreeting);
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->open() && self->decode()) self->wait_readable();
  });
}

void RoundChannel::send(const RoundMessage& message) {
  if (open()) write(encode(message));
}

void RoundChannel::write(std::string_view bytes) {
  if (peer_left_) return;
  if (output_.empty()) {
    const auto status = bytes_.send(fd(), bytes);
    if (status == LinkBytes::Status::done) return;
    // What it said before it left is still to be read; the end of that closes the connection.
    peer_left_ = status == LinkBytes::Status::ended;
    if (peer_left_) return;
    if (status == LinkBytes::Status::failed) return fail_soon(bytes_.error());
  }
  output_.append(bytes);
  if (output_.size() > kMostUnsent) return fail_soon("it does not read what it is sent");
  wait_writable();
}

void RoundChannel::wait_writable() {
  if (waits_writable_) return;
  waits_writable_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       self->waits_writable_ = false;
                       if (!ec && self->open()) self->write(std::exchange(self->output_, {}));
                     });
}

void RoundChannel::wait_readable() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       if (!ec && self->open()) self->readable();
                     });
}

void RoundChannel::readable() {
  read();
  if (open()) wait_readable();
}

void RoundChannel::read_waiting() {
  constexpr int kReads = 64;  // then it is not silent
  const auto self = shared_from_this();
  for (int i = 0; i < kReads && open(); ++i) {
    if (read() != LinkBytes::Status::done) return;
  }
}

// Once; afterwards it may be closed.
LinkBytes::Status RoundChannel::read() {
  std::array<char, 16384> buffer;
  std::string_view got;
  const auto status = bytes_.receive(fd(), buffer, got);
  decoder_.feed(got);
  if (!decode()) return status;
  if (status == LinkBytes::Status::ended) lost("");
  if (status == LinkBytes::Status::failed) lost(bytes_.error());
  if (open() && bytes_.unsent()) wait_writable();
  return status;
}

// False: closed.
bool RoundChannel::decode() {
  for (;;) {
    switch (decoder_.next()) {
      case RoundDecoder::Status::need_more:
        return true;
      case RoundDecoder::Status::bad:
        lost(decoder_.error());
        return false;
      case RoundDecoder::Status::message: {
        const RoundMessage message = decoder_.message();
        callbacks_.message(message);
        if (!open()) return false;
        break;
      }
    }
  }
}

void RoundChannel::close() {
  if (open()) bytes_.close(fd());
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void RoundChannel::lost(const std::string& reason) {
  if (!open()) return;
  close();
  callbacks_.closed(reason);
}

void RoundChannel::fail_soon(const std::string& reason) {
  asio::post(socket_.get_executor(), [self = shared_from_this(), reason] { self->lost(reason); });
}

}  // namespace dtrain
