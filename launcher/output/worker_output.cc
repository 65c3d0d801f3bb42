#include "launcher/output/worker_output.h"

#include <fcntl.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>

#include "launcher/base/wall_time.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

WorkerOutput::WorkerOutput(asio::io_context& io, int workers, const ConsoleSettings& console, Callbacks callbacks)
    : io_(io),
      callbacks_(std::move(callbacks)),
      timer_(io),
      router_(router_options(console)),
      pipes_(io, workers, pipe_callbacks()),
      ids_(size_t(workers) * 2) {}

OutputRouter::Options WorkerOutput::router_options(const ConsoleSettings& console) {
  OutputRouter::Options options;
  options.fold = console.fold;
  options.fold_group = console.group;
  options.turns = console.turns;
  if (!console.utf8) options.fold_sign = "x";
  if (console.timestamps) options.stamp = [] { return iso_time(std::chrono::system_clock::now()) + " "; };
  options.on_room = [this] { asio::post(io_, [this] { resume_paused(); }); };
  return options;
}

WorkerPipes::Callbacks WorkerOutput::pipe_callbacks() {
  return {[this](int stream, std::string_view bytes) { return take(stream, bytes); },
          [this](int stream) { router_.end(ids_[size_t(stream)], SteadyClock::now()); },
          [this] {
            asio::post(io_, [this] {
              if (pipes_.all_closed()) callbacks_.all_ended();  // else a worker has been replaced meanwhile
            });
          }};
}

Result<StreamEnds> WorkerOutput::open(int local_rank, StreamSpec out, StreamSpec err) {
  const Streams piped = Streams((out.direct ? 0U : 1U) | (err.direct ? 0U : 2U));
  auto ends = pipes_.open(local_rank, piped, out.window);
  if (!ends) return ends;
  if (out.direct)
    ends->out.reset(::fcntl(1, F_DUPFD_CLOEXEC, 3));
  else
    ids_[size_t(2 * local_rank)] = router_.open_stream(std::move(out));
  if (err.direct)
    ends->err.reset(::fcntl(2, F_DUPFD_CLOEXEC, 3));
  else
    ids_[size_t(2 * local_rank + 1)] = router_.open_stream(std::move(err));
  if (!ends->out || !ends->err) return system_error("cannot hand the terminal to a worker (see `ulimit -n`)", errno);
  return ends;
}

bool WorkerOutput::take(int stream, std::string_view bytes) {
  const StreamId id = ids_[size_t(stream)];
  callbacks_.data(stream, bytes);
  router_.feed(id, bytes, SteadyClock::now());
  const bool pause = router_.wants_pause(id);
  if (pause) paused_.push_back(stream);
  arm_timer();
  return !pause;
}

void WorkerOutput::resume_paused() {
  std::vector<int> still;
  for (const int stream : paused_) {
    if (router_.wants_pause(ids_[size_t(stream)])) {
      still.push_back(stream);
    } else {
      pipes_.resume(stream);
    }
  }
  paused_ = std::move(still);
  arm_timer();
}

void WorkerOutput::arm_timer() {
  const auto at = router_.deadline();
  if (at == armed_) return;
  armed_ = at;
  if (!at) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*at);
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (ec) return;
    armed_.reset();
    router_.on_time(SteadyClock::now());
    resume_paused();
  });
}

void WorkerOutput::note(const std::string& text) {
  router_.note(text);
  arm_timer();
}

void WorkerOutput::finish(MonoTime deadline) {
  pipes_.close_all();
  router_.finish(deadline);
}

}  // namespace dtrain::launcher
