// Tested by test/process/ssh.
#include "launcher/hosts/pipe_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace dtrain::launcher {

PipeWriter::PipeWriter(boost::asio::io_context& io, Callbacks callbacks)
    : callbacks_(std::move(callbacks)), pipe_(io) {}

void PipeWriter::open(UniqueFd pipe) {
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  pipe_.assign(pipe.release());
}

void PipeWriter::send(std::string_view bytes) {
  if (!pipe_.is_open()) return;
  unsent_.append(bytes);
  if (!waits_) write();
}

void PipeWriter::write() {
  while (!unsent_.empty()) {
    const std::string_view front = unsent_.front();
    const ssize_t sent = ::write(pipe_.native_handle(), front.data(), front.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    unsent_.take(sent < 0 ? front.size() : static_cast<std::size_t>(sent));
    if (sent < 0 && callbacks_.broken) callbacks_.broken();
  }
  waits_ = !unsent_.empty();
  if (!waits_) return;
  pipe_.async_wait(boost::asio::posix::stream_descriptor::wait_write, [this](const boost::system::error_code& error) {
    if (error) return;
    write();
    if (!waits_ && callbacks_.drained) callbacks_.drained();
  });
}

void PipeWriter::close() {
  unsent_.take(unsent_.size());
  waits_ = false;
  if (pipe_.is_open()) pipe_.close();
}

}  // namespace dtrain::launcher
