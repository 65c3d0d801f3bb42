#pragma once
// OutputWriter: a thread with a bounded queue that writes blocks to descriptors, so that a blocked terminal or disk
// never blocks the agent. It blocks all signals, sleeps on a condition variable when idle, and starts with the first
// block.
//
// What cannot be written is counted per target and stream. A target whose reader is gone (EPIPE, a hung-up terminal) is
// given up; with any other error (a full disk) its blocks are dropped and writing is tried again after kRetryAfter.
// Tested by test/process/launcher/output_test.py.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/output/output_block.h"
#include "launcher/output/stall_watch.h"
#include "launcher/terminal/console_turns.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// Bytes of one stream that one target did not get.
struct WriteLoss {
  std::string target;  // its name
  StreamId stream = 0;
  uint64_t bytes = 0;
  uint64_t lines = 0;
  std::string reason;
};

// All functions are for one thread, the agent's. on_room is called by the writer's with its mutex held: it may only
// wake the agent (asio::post), not call back.
class OutputWriter {
 public:
  static constexpr std::chrono::milliseconds kRetryAfter{250};
  // The longest that finish() waits for a reader that reads, however slowly.
  static constexpr std::chrono::seconds kSlowestReader{60};

  // full() is true from queue_bytes on; on_room is called once when the queue is half empty again after that.
  OutputWriter(size_t queue_bytes, std::function<void()> on_room);
  // Abandons what is still queued; never blocks on a descriptor. Call finish() first to count it.
  ~OutputWriter();
  OutputWriter(const OutputWriter&) = delete;
  OutputWriter& operator=(const OutputWriter&) = delete;

  // Add a descriptor that is written to and closed by the writer, or one that stays open (borrowed). `name`: for
  // losses.
  int add_target(UniqueFd fd, std::string name);
  // `turns`: of the processes that write whole lines there; null: nobody else does.
  int add_borrowed_target(int fd, std::string name, ConsoleTurns* turns = nullptr);
  // Close the target's own descriptor once all its blocks are written.
  void close_target(int target);

  // Queue the block's content and leave it empty. Never waits.
  void submit(int target, Block& block);

  bool full();
  // Twice full: nothing more may be submitted, so that memory is bounded even if the agent reads on.
  bool overfull() const;
  // Whether the queue has drained to half of its bound.
  bool has_room() const;
  // Bytes written or given up so far; a sink is stuck while it is full and this does not change.
  uint64_t progress() const;

  // Wait until all is written, until `deadline` and on as long as bytes get through in every such span (at most
  // kSlowestReader); what is left then is given up and counted. The last call but
  // losses().
  void finish(MonoTime deadline);
  std::vector<WriteLoss> losses() const;

 private:
  struct State;
  void start();

  // Shared with the thread, which outlives the writer when a write() never returns.
  std::shared_ptr<State> state_;
};

// A writer with a watch on its health.
struct WatchedWriter {
  OutputWriter writer;
  StallWatch watch;

  WatchedWriter(size_t queue_bytes, const std::function<void()>& on_room, Duration patience)
      : writer(queue_bytes, on_room), watch(patience) {}
  void look(MonoTime now) { watch.look(writer.full(), writer.has_room(), writer.progress(), now); }
  // Whether those that fill the queue should wait.
  bool pauses() { return writer.full() && !watch.dropping(); }
};

// Whether both descriptors lead to one file, whose lines two writers would mix.
bool same_file(int a, int b);

}  // namespace dtrain::launcher
