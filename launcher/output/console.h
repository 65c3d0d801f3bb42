#pragma once
// Console: what the user sees of all streams on one descriptor. Each line gets its stream's prefix; while one stream is
// within a line the others wait; and, where that is asked for, identical lines of several workers are shown once.
//
//   feed() ---------------------------> waiting or laid out (ConsoleText) --> OutputWriter's thread
//      \---lines--> LineFolder --shown as the stream `folded`--^
//
// A piece that cannot wait for its like (a progress bar, a very long line, a prompt) goes the ordinary way, behind what
// its stream has waiting; a stream that waits for the console goes the ordinary way until it has caught up.
//
// For the agent's thread; nothing blocks. A descriptor that takes nothing for `patience` while the queue is full is
// stuck: from then on lines are dropped as a whole, and `lose` counts them. A note is dropped only when the queue is
// twice full. Tested by test/unit/launcher/output/output_router_test.cc.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/job_spec.h"
#include "launcher/output/console_text.h"
#include "launcher/output/line_folder.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/output_writer.h"
#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

inline constexpr StreamId kNotes = 0;  // the number of the stream of dtrain's own lines

// Options of OutputRouter and its consoles.
struct OutputOptions {
  int out_fd = 1;
  int err_fd = 2;
  size_t queue_bytes = 16u << 20;            // of each writer; memory is bounded by about twice this
  std::chrono::milliseconds patience{2000};  // see above
  // How long a line that is too long to be held may stand still before other streams may cut it.
  std::chrono::milliseconds line_patience{1000};
  // A paused stream may go on: ask wants_pause() again. Called by a writer thread, or from within feed() and the
  // like; the function may only wake the agent (asio::post).
  std::function<void()> on_room = [] {};
  // What comes before the prefix of each line, asked for when the line is laid out; empty: nothing.
  std::function<std::string()> stamp = {};
  // Show identical lines of several workers once (line_folder.h), as "[0-7] ×8 text".
  bool fold = false;
  std::string fold_sign = "×";
  std::string fold_group = {};    // before the ranks
  ConsoleTurns* turns = nullptr;  // with other processes that write there; null: nobody else does
};

struct ConsoleStream {
  int rank = 0;                  // of the job; negative: the stream is dtrain's own
  Streams which = Streams::out;  // only lines of one kind are folded
  std::string prefix;
  bool eager = false;  // pass unfinished lines on at once; other streams may cut such a line
};

class Console {
 public:
  // Counts bytes of a stream that were dropped.
  using Lose = std::function<void(StreamId id, std::string_view bytes)>;

  // `options` outlive this object. `fd` stays open; `name` is its name in losses.
  Console(const OutputOptions& options, std::string name, int fd, Lose lose);

  // The number of a stream that has been done() may be opened again.
  void open(StreamId id, ConsoleStream stream);
  // The stream that shows folded lines, opened before; call before a worker's stream is opened.
  void fold_as(StreamId folded) { folded_ = folded; }
  void feed(StreamId id, std::string_view bytes, MonoTime now);
  void end(StreamId id, MonoTime now);
  // Whether the stream has ended and none of its bytes wait here.
  bool done(StreamId id) const;

  bool wants_pause(StreamId id);
  // When to call on_time(), if at all.
  std::optional<MonoTime> deadline() const;
  void on_time(MonoTime now);

  // Show the lines that wait for their like, so that what comes next comes behind them.
  void unfold();
  // Show whole lines of dtrain's own.
  void note(std::string_view lines) { write(kNotes, lines); }
  // Every stream has ended: give the writer all that waits.
  void let_go();
  OutputWriter& writer() { return sink_.writer; }

 private:
  struct Stream {
    ConsoleStream spec;
    LineSplitter splitter;
    std::unique_ptr<LineSplitter> fold_splitter;  // null: lines are not folded
    std::string waiting;                          // bytes that wait for another stream's line to end
    bool ended = false;
    bool dropping = false;  // the rest of the current line is dropped
  };

  Stream& at(StreamId id) { return *streams_[size_t(id)]; }
  bool waits(StreamId id) const;
  void take(StreamId id, std::string_view bytes, MonoTime now);
  void fold(StreamId id, std::string_view bytes, MonoTime now);
  LineFolder::Show show();
  std::string folded_prefix(const std::vector<int>& members);
  void write(StreamId id, std::string_view bytes);
  void lay_out(StreamId id, std::string_view bytes);
  void put(StreamId id, const Piece& piece, const std::string& stamp);
  void release();
  void submit() { sink_.writer.submit(0, block_); }

  const OutputOptions& options_;
  const Lose lose_;
  WatchedWriter sink_;
  ConsoleText text_;
  Block block_;                                   // being filled by the current call
  std::vector<std::unique_ptr<Stream>> streams_;  // by number; null: a stream that is not shown here
  std::vector<StreamId> waiting_;                 // streams that wait for the owner of a line, in order
  MonoTime line_moved_{};                         // when the owner last wrote
  LineFolder folder_;
  StreamId folded_ = -1;    // -1: lines are not folded
  bool releasing_ = false;  // within release()
};

}  // namespace dtrain::launcher
