#include "rendezvous/store_link.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/connect.h"

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
  output_.append(kStoreLinkGreeting);
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
                       const int error = connect_error(self->socket_.native_handle());
                       if (error != 0) return self->lost(std::string("cannot connect: ") + std::strerror(error));
                       self->connected_ = true;
                       self->flush();
                       self->wait_readable();
                     });
}

// ---- out ------------------------------------------------------------------------------------------------------------

void StoreLink::send(StoreLinkType type, std::uint64_t number, std::string_view payload) {
  if (!open() || peer_left_ || finishing_) return;
  const bool again = type == StoreLinkType::data && is_again(payload);
  const std::size_t before = output_.size();
  put_store_link_frame(output_.end(), again ? StoreLinkType::again : type, number, payload);
  after_last_ += output_.size() - before;
  if (type == StoreLinkType::data && !again) last_data_ = after_last_ = payload.size();
  full_ = full_ || output_.size() > kFullBytes;
  flush_soon();
}

// It is what the last data frame had, which is still here to be looked at. Many workers get one value at a time.
bool StoreLink::is_again(std::string_view payload) const {
  if (!at_host_ || payload.size() != last_data_ || after_last_ > output_.size()) return false;
  if (payload.size() < kStoreLinkAgainLeast || payload.size() > kStoreLinkAgainMost) return false;
  return output_.front().substr(output_.size() - after_last_, last_data_) == payload;
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
  if (!open() || waits_writable_) return;
  std::string_view left = output_.front().substr(0, kFullBytes);  // the others have their turn
  const std::size_t most = left.size();
  const auto status = bytes_.send(socket_.native_handle(), left);
  output_.take(most - left.size());
  if (status == LinkBytes::Status::failed) return lost(bytes_.error());
  if (status == LinkBytes::Status::ended) {
    // What it said before it left is still to be read; the end of that closes the link.
    peer_left_ = true;
    output_.take(output_.size());
  }
  if (status == LinkBytes::Status::blocked) wait_writable();
  if (!output_.empty()) flush_soon();
  written();
}

void StoreLink::written() {
  if (finishing_ && output_.empty() && !bytes_.unsent()) {
    bytes_.close(socket_.native_handle());
    ::shutdown(socket_.native_handle(), SHUT_WR);
  }
  if (!full_ || output_.size() > kDrainedBytes) return;
  full_ = false;
  callbacks_.drained();
  if (open() && at_host_) hand_out_rest();
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
    std::string_view got;
    const auto status = bytes_.receive(socket_.native_handle(), buffer, got);
    const bool more = got.size() == buffer.size();
    take(got);
    if (!open()) return;
    if (status == LinkBytes::Status::ended || status == LinkBytes::Status::failed) return lost(bytes_.error());
    if (bytes_.unsent()) flush_soon();
    if (!more) break;
  }
  callbacks_.turn();
  if (open() && !waits()) wait_readable();
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
  if (!bytes_.encrypted()) return std::nullopt;
  return bytes_.link().epoch;
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
