#include "launcher/output/worker_pipes.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {
constexpr size_t kReadSize = 256 * 1024;
// A bigger pipe means fewer wake-ups for a loud worker; the kernel may refuse, and then the default does.
constexpr int kPipeSize = 256 * 1024;
// But with many workers it would eat up what the kernel allows a user, and shrink the pipes of everybody else.
constexpr size_t kStreamsWithBigPipes = 64;
// Turns one stream takes before the loop looks at the others (and at the guard) again.
constexpr int kReadsInARow = 4;
}  // namespace

WorkerPipes::WorkerPipes(asio::io_context& io, int workers, Callbacks callbacks)
    : io_(io), callbacks_(std::move(callbacks)), pipes_(size_t(workers) * 2) {}

Result<StreamEnds> WorkerPipes::open(int local_rank, Streams streams, std::optional<WindowSize> window) {
  StreamEnds ends;
  if (has(streams, Streams::out)) {
    auto out = open_stream(2 * local_rank, window);
    if (!out) return out.error();
    ends.out = std::move(*out);
  }
  if (!has(streams, Streams::err)) return ends;
  auto err = open_stream(2 * local_rank + 1, {});
  if (err) {
    ends.err = std::move(*err);
    return ends;
  }
  if (ends.out) {
    pipes_[size_t(2 * local_rank)].reset();
    --open_;
  }
  return err.error();
}

Result<UniqueFd> WorkerPipes::open_stream(int stream, std::optional<WindowSize> window) {
  auto ends = window ? open_stream_terminal(*window) : open_stream_pipe();
  if (!ends) return ends.error();
  if (pipes_.size() <= kStreamsWithBigPipes) ::fcntl(ends->read_end.get(), F_SETPIPE_SZ, kPipeSize);
  auto& pipe = pipes_[size_t(stream)];
  if (pipe && pipe->descriptor.is_open()) ended(stream);  // what the one before has started may hold it for ever
  pipe = std::make_unique<Pipe>(io_);
  pipe->descriptor.assign(ends->read_end.release());
  ++open_;
  wait(stream);
  return std::move(ends->write_end);
}

void WorkerPipes::wait(int stream) {
  pipes_[size_t(stream)]->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                                [this, stream](const boost::system::error_code& ec) {
                                                  if (!ec) read(stream);
                                                });
}

void WorkerPipes::read(int stream) {
  Pipe& pipe = *pipes_[size_t(stream)];
  for (int i = 0; i < kReadsInARow; ++i) {
    const ssize_t n = ::read(pipe.descriptor.native_handle(), buffer(), kReadSize);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {  // of a terminal whose writers are gone: EIO
      ended(stream);
      return;
    }
    if (!callbacks_.data(stream, {buffer(), size_t(n)})) {
      pipe.paused = true;
      return;
    }
  }
  wait(stream);
}

void WorkerPipes::resume(int stream) {
  auto& pipe = pipes_[size_t(stream)];
  if (!pipe || !pipe->paused || !pipe->descriptor.is_open()) return;
  pipe->paused = false;
  wait(stream);
}

void WorkerPipes::drain_all() {
  for (size_t i = 0; i < pipes_.size(); ++i) drain_stream(int(i));
}

void WorkerPipes::drain(int local_rank) {
  for (const int which : {0, 1}) drain_stream(2 * local_rank + which);
}

void WorkerPipes::drain_stream(int stream) {
  const auto& pipe = pipes_[size_t(stream)];
  if (!pipe || !pipe->descriptor.is_open()) return;
  const int fd = pipe->descriptor.native_handle();
  int held = 0;
  ::ioctl(fd, FIONREAD, &held);
  for (ssize_t unread = held, n = 1; n > 0 && unread >= 0; unread -= n) {
    n = ::read(fd, buffer(), kReadSize);
    if (n > 0) callbacks_.data(stream, {buffer(), size_t(n)});
    if (n == 0) ended(stream);
  }
}

char* WorkerPipes::buffer() {
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(kReadSize);
  return buffer_.get();
}

void WorkerPipes::ended(int stream) {
  pipes_[size_t(stream)]->descriptor.close();
  --open_;
  callbacks_.end(stream);
  if (open_ == 0) callbacks_.all_ended();
}

void WorkerPipes::close_all() {
  for (size_t stream = 0; stream < pipes_.size(); ++stream) {
    if (pipes_[stream] && pipes_[stream]->descriptor.is_open()) ended(int(stream));
  }
}

}  // namespace dtrain::launcher
