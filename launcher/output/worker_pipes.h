#pragma once
// The read ends of every worker's stdout and stderr on the agent's event loop. A pipe stays open until its last writer
// is gone, a grandchild's too, so nothing that was written is lost. Tested by test/process/launcher/output_test.py.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "launcher/job/job_spec.h"
#include "launcher/process/stream_ends.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// stream = 2 * local_rank + (0 for stdout, 1 for stderr)
class WorkerPipes {
 public:
  struct Callbacks {
    // Bytes of a stream; false: take no more from it until resume().
    std::function<bool(int stream, std::string_view bytes)> data;
    std::function<void(int stream)> end;
    std::function<void()> all_ended;
  };

  WorkerPipes(boost::asio::io_context& io, int workers, Callbacks callbacks);

  // Make the pipes of one worker and start reading them, in place of those of a worker that is gone; a stream not in
  // `streams` gets none. With a window, the worker's stdout is a terminal of that size. Error: no descriptors left.
  Result<StreamEnds> open(int local_rank, Streams streams, std::optional<WindowSize> window = {});
  // Read on after `data` returned false.
  void resume(int stream);
  // Read now what each pipe holds, paused or not, and its end if no writer is left. Not more: a writer may never pause.
  void drain_all();
  // The same of one worker.
  void drain(int local_rank);
  // Stop reading and drop what is unread.
  void close_all();
  bool all_closed() const { return open_ == 0; }

 private:
  struct Pipe {
    explicit Pipe(boost::asio::io_context& io) : descriptor(io) {}
    boost::asio::posix::stream_descriptor descriptor;
    bool paused = false;
  };

  Result<UniqueFd> open_stream(int stream, std::optional<WindowSize> window);
  void wait(int stream);
  void read(int stream);
  void drain_stream(int stream);
  void ended(int stream);
  char* buffer();

  boost::asio::io_context& io_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<Pipe>> pipes_;
  std::unique_ptr<char[]> buffer_;
  int open_ = 0;
};

}  // namespace dtrain::launcher
