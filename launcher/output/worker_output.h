#pragma once
// The way of the workers' output on the agent's event loop: pipes -> OutputRouter -> console and files, with the pauses
// that a full sink asks for. A timer runs only while a sink is stuck or a line waits to be folded.
// Tested by test/process/launcher/output_test.py.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/output_router.h"
#include "launcher/output/worker_pipes.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class WorkerOutput {
 public:
  struct Callbacks {
    // Bytes of a stream (2 * local_rank + (0 stdout, 1 stderr)) as they come.
    std::function<void(int stream, std::string_view bytes)> data;
    // Every pipe of the round was read to its end. Called from the event loop.
    std::function<void()> all_ended;
  };

  WorkerOutput(boost::asio::io_context& io, int workers, const ConsoleSettings& console, Callbacks callbacks);

  // Make the pipes of one worker of a new round; returns the ends that the worker writes to. A stream that is `direct`
  // gets dtrain's own descriptor instead.
  Result<StreamEnds> open(int local_rank, StreamSpec out, StreamSpec err);
  bool all_closed() const { return pipes_.all_closed(); }
  // dtrain's own words, on the error console, in order with the workers' lines.
  void note(const std::string& text);
  // No worker is left: read what the pipes still hold, even if a sink is slow; all_ended follows.
  void drain() { pipes_.drain_all(); }
  // Stop reading, then wait until all is written, at most until `deadline`.
  void finish(MonoTime deadline);
  std::vector<Loss> losses() const { return router_.losses(); }

 private:
  OutputRouter::Options router_options(const ConsoleSettings& console);
  WorkerPipes::Callbacks pipe_callbacks();
  bool take(int stream, std::string_view bytes);
  void resume_paused();
  void arm_timer();

  boost::asio::io_context& io_;
  Callbacks callbacks_;
  boost::asio::steady_timer timer_;
  std::optional<MonoTime> armed_;  // what timer_ waits for
  OutputRouter router_;
  WorkerPipes pipes_;
  std::vector<StreamId> ids_;  // the router's name of each stream
  std::vector<int> paused_;    // streams
};

}  // namespace dtrain::launcher
