#include "rendezvous/store_link.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kReadBytes = std::size_t{128} << 10;
// A link that brings bytes without pause lets the others have their turn after this many reads.
constexpr int kReadsPerTurn = 8;
constexpr std::size_t kFullBytes = std::size_t{1} << 20;
constexpr std::size_t kDrainedBytes = kFullBytes / 4;

// All links of a thread read into one buffer.
std::vector<char>& read_buffer() {
  thread_local std::vector<char> buffer(kReadBytes);
  return buffer;
}

}  // namespace

void StoreLink::start(Callbacks callbacks, std::string received, bool connecting) {
  callbacks_ = std::move(callbacks);
  (tls_ ? plain_ : output_.end()).append(kStoreLinkGreeting);
  input_ = std::move(received);
  connected_ = !connecting;
  if (connecting) return wait_connected();
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->flush();
    self->hand_out_rest();
  });
}

void StoreLink::wait_connected() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       if (ec || !self->open()) return;
                       int error = 0;
                       socklen_t size = sizeof error;
                       ::getsockopt(self->socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size);
                       if (error != 0) return self->lost(std::string("cannot connect: ") + std::strerror(error));
                       self->connected_ = true;
                       self->flush();
                       self->wait_readable();
                     });
}

// ---- out ------------------------------------------------------------------------------------------------------------

void StoreLink::send(StoreLinkType type, std::uint64_t number, std::string_view payload) {
  if (!open() || peer_left_ || finishing_) return;
  put_store_link_frame(tls_ ? plain_ : output_.end(), type, number, payload);
  full_ = full_ || output_.size() + plain_.size() > kFullBytes;
  flush_soon();
}

void StoreLink::finish() {
  finishing_ = true;
  flush_soon();
}

void StoreLink::flush_soon() {
  if (flush_posted_ || waits_writable_ || !connected_) return;
  flush_posted_ = true;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->flush_posted_ = false;
    self->flush();
  });
}

void StoreLink::flush() {
  if (!open() || waits_writable_ || !encrypt()) return;
  if (!output_.empty()) {
    const std::string_view bytes = output_.front();
    const ssize_t sent = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      output_.take(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      // What it said before it left is still to be read; the end of that closes the link.
      peer_left_ = true;
      output_.take(output_.size());
    }
  }
  if (!output_.empty()) wait_writable();
  written();
}

// Output is ready to be written. False: the session has failed, and the link is lost.
bool StoreLink::encrypt() {
  if (!tls_) return true;
  if (!plain_.empty()) {
    const auto sent = tls_->send(plain_);
    if (plain_.capacity() > kFullBytes) std::string().swap(plain_);
    plain_.clear();
    if (!sent) {
      lost(sent.error().message);
      return false;
    }
  }
  if (finishing_) tls_->close();
  output_.append(tls_->take_output());
  return true;
}

void StoreLink::written() {
  if (finishing_ && output_.empty()) ::shutdown(socket_.native_handle(), SHUT_WR);
  if (!full_ || output_.size() > kDrainedBytes) return;
  full_ = false;
  callbacks_.drained();
  if (open() && waits_when_full_) hand_out_rest();
}

void StoreLink::wait_writable() {
  waits_writable_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       self->waits_writable_ = false;
                       if (!ec) self->flush();
                     });
}

// ---- in -------------------------------------------------------------------------------------------------------------

void StoreLink::wait_readable() {
  if (waits_readable_) return;
  waits_readable_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       self->waits_readable_ = false;
                       if (!ec && self->open()) self->readable();
                     });
}

void StoreLink::readable() {
  std::vector<char>& buffer = read_buffer();
  for (int i = 0; i < kReadsPerTurn && !waits(); ++i) {
    const ssize_t size = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (size < 0) return lost(std::strerror(errno));
    if (size == 0) return lost("");
    decrypt({buffer.data(), static_cast<std::size_t>(size)});
    if (!open()) return;
    if (static_cast<std::size_t>(size) < buffer.size()) break;
  }
  callbacks_.turn();
  if (open() && !waits()) wait_readable();
}

void StoreLink::decrypt(std::string_view bytes) {
  if (!tls_) return take(bytes);
  std::string plain;
  const auto received = tls_->receive(bytes, plain);
  flush_soon();  // the session may have something to say
  take(plain);
  if (received || !open()) return;
  flush();  // why, to the other side
  lost(received.error().message);
}

void StoreLink::take(std::string_view bytes) {
  while (open()) {
    if (waits()) {
      input_.append(bytes);
      return;
    }
    switch (decoder_.next(bytes)) {
      case StoreLinkDecoder::Status::need_more:
        return;
      case StoreLinkDecoder::Status::bad:
        return lost(decoder_.error());
      case StoreLinkDecoder::Status::frame:
        hand_out(decoder_.frame());
    }
  }
}

void StoreLink::hand_out(StoreLinkFrame frame) {
  if (finishing_) return;
  callbacks_.frame(frame);
  if (frame.type != StoreLinkType::data || frame.payload.empty() || !waits()) return;
  unhandled_ = frame.payload;
  unhandled_number_ = frame.number;
}

// Go on where the link was full, then with what comes.
void StoreLink::hand_out_rest() {
  if (!unhandled_.empty()) {
    const std::string rest = std::exchange(unhandled_, {});
    hand_out({StoreLinkType::data, unhandled_number_, rest});
  }
  const std::string input = std::exchange(input_, {});
  take(input);
  if (!open()) return;
  callbacks_.turn();
  if (open() && !waits()) wait_readable();
}

// ---- the end --------------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> StoreLink::epoch() const {
  if (!tls_) return std::nullopt;
  return tls_->link().epoch;
}

void StoreLink::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void StoreLink::lost(const std::string& reason) {
  if (!open()) return;
  close();
  callbacks_.closed(reason);
}

}  // namespace dtrain
