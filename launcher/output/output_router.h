#pragma once
// OutputRouter brings the bytes of all workers to log files and the console, and counts what does not arrive there.
//
//   worker pipe --feed()--> OutputRouter --raw bytes----------> log file        (one writer thread for all files)
//                               \------prefixed whole lines---> Console         (one writer thread, two when stdout and
//                                                                                stderr are different files)
//
// All functions are for the agent's thread; none blocks but finish(). When a sink's queue is full, wants_pause() tells
// the agent to stop reading that pipe: back-pressure, nothing is lost. A sink that takes nothing for `patience` while
// full is stuck: from then on its text is dropped, console text by whole lines, and every byte is counted. A stuck
// sink never stops the job.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/job/job_spec.h"
#include "launcher/output/console.h"
#include "launcher/output/line_picker.h"
#include "launcher/output/output_writer.h"
#include "launcher/process/stream_ends.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// A file that gets the picked lines of several streams, behind their prefixes. Closed when the last of them has ended.
struct LineCopy {
  UniqueFd file;
  std::string path;
  std::shared_ptr<const TextSearch> texts;  // a line that contains one of them is picked
  int target = -1;                          // the router's
  int streams = 0;                          // that are open
};

// One output stream of one worker. Put together by the agent when it starts the worker.
struct StreamSpec {
  int rank = 0;
  Streams which = Streams::out;  // out or err: which console it goes to, and its name in losses
  bool to_console = true;
  bool direct = false;                 // the worker has the console itself; no byte of this stream comes here
  std::optional<WindowSize> window{};  // the worker's end is a terminal of this size; else it is a pipe
  std::string prefix;                  // rendered and coloured; put before each line on the console
  // Pass unfinished lines on at once: for a worker whose prompts the user answers. Other streams may cut such a line.
  bool eager = false;
  UniqueFd file;  // where the stream's bytes go unchanged; none: to no file
  std::string file_path;
  std::shared_ptr<LineCopy> copy;  // where picked lines go too; null: nowhere
  std::string copy_prefix;
};

// Bytes of one stream that one sink did not get, and why.
struct Loss {
  std::string sink;    // "stdout", "stderr" or the path of a log file
  int rank = -1;       // -1: dtrain's own notes; kFoldedLines
  std::string stream;  // "stdout" or "stderr"
  uint64_t bytes = 0;
  uint64_t lines = 0;
  std::string reason;
};

// The rank of lines that stand for several ranks at once; counted as they are shown, prefix included.
inline constexpr int kFoldedLines = -2;

// "rank 3: 120 bytes (2 lines) of stderr were not written to stdout: Broken pipe"
std::string describe(const Loss& loss);

class OutputRouter {
 public:
  using Options = OutputOptions;

  explicit OutputRouter(Options options);
  ~OutputRouter();

  // A rank's stream of a later round gets the number of the round before, so that restarts cost no memory.
  StreamId open_stream(StreamSpec spec);
  // Take the next bytes of a stream, at most 16 MiB at once.
  void feed(StreamId stream, std::string_view bytes, MonoTime now);
  // The stream ended: the router passes the last line on and closes the stream's file.
  void end(StreamId stream, MonoTime now);

  // The agent should not read this stream now. Ask after each feed(), on_room and on_time().
  bool wants_pause(StreamId stream);
  // When to call on_time(), if at all: only while a sink is stuck, or a line waits.
  std::optional<MonoTime> deadline() const;
  void on_time(MonoTime now);

  // Put dtrain's own text on the error console, in order and between lines. A stuck console drops no notes until its
  // queue is twice full. A missing last "\n" is added.
  void note(std::string_view text);

  // End all streams and wait until everything is written, at most until `deadline`. The last call but losses().
  void finish(MonoTime deadline);
  // What was not written, exact after finish().
  std::vector<Loss> losses() const;

 private:
  struct Stream {
    StreamSpec spec;
    Console* console = nullptr;  // null: not shown
    int file_target = -1;
    std::unique_ptr<LinePicker> picker;  // null: no line is copied
    bool ended = false;
  };

  using LossKey = std::tuple<std::string, StreamId, std::string>;

  void open_console(int fd, const std::string& name);
  Console& console_of(Streams which) { return *(which == Streams::err ? consoles_.back() : consoles_.front()); }
  StreamId number_of(const StreamSpec& spec);
  bool is_over(StreamId id) const;
  void to_file(StreamId id, std::string_view bytes, MonoTime now);
  void copy_lines(StreamId id, std::string_view bytes, MonoTime now);
  void lose(const std::string& sink, StreamId id, std::string_view bytes, const std::string& reason);
  Loss& loss(const std::string& sink, StreamId id, const std::string& reason);
  void collect(const OutputWriter& writer);

  Options options_;
  std::vector<std::unique_ptr<Stream>> streams_;         // [0]: dtrain's notes
  std::map<std::pair<int, Streams>, StreamId> numbers_;  // of the last stream of each rank and kind
  std::vector<std::unique_ptr<Console>> consoles_;       // stdout, and stderr unless that is the same file
  WatchedWriter files_;
  Block file_block_;
  std::map<LossKey, Loss> losses_;
};

}  // namespace dtrain::launcher
