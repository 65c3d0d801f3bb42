#include "rendezvous/tls/link_stream.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <cstring>
#include <span>

#include "rendezvous/net/connect.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

using Status = LinkBytes::Status;

std::span<char> read_buffer() {
  thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(LinkStream::kMostReadBytes);
  return {buffer.get(), LinkStream::kMostReadBytes};
}

}  // namespace

// ---- out ------------------------------------------------------------------------------------------------------------

void LinkStream::wait_connected() {
  connecting_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [this, self = shared_from_this()](const boost::system::error_code& ec) {
                       if (ec || !open()) return;
                       const int error = connect_error(fd());
                       if (error != 0) return fail(std::string("cannot connect: ") + std::strerror(error));
                       connecting_ = false;
                       flush();
                       resume();
                     });
}

void LinkStream::write(std::string_view bytes) {
  if (write_at_once(bytes)) return;
  output_.append(bytes);
  wait_to_write();
}

void LinkStream::hand_over(std::string&& bytes) {
  std::string_view left = bytes;
  if (write_at_once(left)) return;
  output_.adopt(std::move(bytes), left.size());
  wait_to_write();
}

bool LinkStream::write_at_once(std::string_view& bytes) {
  if (!writes()) return true;
  if (!output_.empty() || connecting_) return false;
  const Status status = bytes_.send(fd(), bytes);
  if (status == Status::failed) fail_soon(bytes_.error());
  peer_left_ = status == Status::ended;
  return status == Status::done || status == Status::failed || peer_left_;
}

void LinkStream::wait_to_write() {
  full_ = full_ || output_.size() > limits_.full_bytes;
  wait_writable();
}

void LinkStream::write_soon() {
  full_ = full_ || output_.size() > limits_.full_bytes;
  if (flush_posted_ || waits_writable_ || connecting_) return;
  flush_posted_ = true;
  asio::post(socket_.get_executor(), [this, self = shared_from_this()] {
    flush_posted_ = false;
    flush();
  });
}

// With nothing in the queue: what TLS has to say.
void LinkStream::flush() {
  if (!open() || waits_writable_) return;
  std::string_view left = output_.front().substr(0, limits_.full_bytes);  // the others have their turn
  const std::size_t most = left.size();
  const Status status = bytes_.send(fd(), left);
  output_.take(most - left.size());
  if (status == Status::failed) return fail(bytes_.error());
  peer_left_ = peer_left_ || status == Status::ended;
  if (peer_left_) output_.take(output_.size());
  if (status == Status::blocked) wait_writable();
  if (!output_.empty()) write_soon();
  if (finishing_ && output_.empty() && !bytes_.unsent()) {
    bytes_.close(fd());
    ::shutdown(fd(), SHUT_WR);
  }
  written();
  if (!open() || !full_ || output_.size() > limits_.drained_bytes) return;
  full_ = false;
  drained();
}

void LinkStream::wait_writable() {
  if (connecting_ || std::exchange(waits_writable_, true)) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [this, self = shared_from_this()](const boost::system::error_code& ec) {
                       waits_writable_ = false;
                       if (!ec) flush();
                     });
}

void LinkStream::finish() {
  finishing_ = true;
  write_soon();
}

// ---- in -------------------------------------------------------------------------------------------------------------

void LinkStream::resume() {
  if (!open() || std::exchange(waits_readable_, true)) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [this, self = shared_from_this()](const boost::system::error_code& ec) {
                       waits_readable_ = false;
                       if (ec || !open()) return;
                       read_now();
                       if (open()) turn();
                     });
}

void LinkStream::read_now() {
  bool filled = true;
  for (int i = 0; i < limits_.reads_per_turn && filled; ++i) {
    const std::size_t most = room();
    if (most == 0) return;
    read(most, filled);
    if (!open()) return;
  }
  resume();
}

void LinkStream::read_all(int reads) {
  const auto self = shared_from_this();
  bool filled = false;
  for (int i = 0; i < reads && open(); ++i) {
    if (read(limits_.read_bytes, filled) != Status::done) return;
  }
}

// Once; afterwards the stream may be closed. `filled`: there may be more.
LinkBytes::Status LinkStream::read(std::size_t most, bool& filled) {
  std::string_view got;
  const Status status = bytes_.receive(fd(), read_buffer().first(most), got);
  filled = got.size() == most;
  if (!got.empty() && !finishing_) received(got);
  if (!open()) return status;
  if (status == Status::ended || status == Status::failed) {
    lost(status, bytes_.error());
  } else if (bytes_.unsent()) {
    wait_writable();
  }
  return status;
}

// ---- the end --------------------------------------------------------------------------------------------------------

void LinkStream::close() {
  if (!open()) return;
  bytes_.close(fd());
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void LinkStream::lost(Status how, const std::string& reason) {
  if (!open()) return;
  close();
  closed(how, reason);
}

void LinkStream::fail_soon(std::string reason) {
  asio::post(socket_.get_executor(), [this, self = shared_from_this(), why = std::move(reason)] { fail(why); });
}

}  // namespace dtrain
