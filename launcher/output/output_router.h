#pragma once
// OutputRouter brings the bytes of all workers to log files and the console.
//
//   worker pipe --feed()--> OutputRouter --raw bytes----------> log file        (one writer thread for all files)
//                               \------prefixed whole lines---> console         (one writer thread, two when stdout and
//                                                                                stderr are different files)
//
// All functions are for the agent's thread; none blocks but finish(). When a sink's queue is full, wants_pause() tells
// the agent to stop reading that pipe: back-pressure, nothing is lost. A sink that takes nothing for `patience` while
// full is stuck: from then on its text is dropped, console text by whole lines, and every byte is counted. It never
// stops the job.
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/job_spec.h"
#include "launcher/line_folder.h"
#include "launcher/line_picker.h"
#include "launcher/line_splitter.h"
#include "launcher/output_console.h"
#include "launcher/output_writer.h"
#include "launcher/stall_watch.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// A file that gets the picked lines of several streams, behind their prefixes. Closed when the last of them has ended.
struct LineCopy {
  UniqueFd file;
  std::string path;
  std::vector<std::string> texts;  // a line that contains one of them is picked
  int target = -1;                 // the router's
  int streams = 0;                 // that are open
};

// One output stream of one worker. Put together by the agent when it starts the worker.
struct StreamSpec {
  int rank = 0;
  Streams which = Streams::out;  // out or err: which console it goes to, and its name in losses
  bool to_console = true;
  bool direct = false;  // the worker has the console itself; nothing of this stream comes here
  std::string prefix;   // rendered and coloured; put before each line on the console
  // Pass unfinished lines on at once: for a worker whose prompts the user answers. Others may cut such a line.
  bool eager = false;
  UniqueFd file;  // where its bytes go unchanged; none: to no file
  std::string file_path;
  std::shared_ptr<LineCopy> copy;  // where picked lines go as well; null: nowhere
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

// Of lines that stand for several ranks at once; counted as they are shown, prefix included.
inline constexpr int kFoldedLines = -2;

// "rank 3: 120 bytes (2 lines) of stderr were not written to stdout: Broken pipe"
std::string describe(const Loss& loss);

class OutputRouter {
 public:
  struct Options {
    int out_fd = 1;
    int err_fd = 2;
    size_t queue_bytes = 16u << 20;            // of each writer; memory is bounded by about twice this
    std::chrono::milliseconds patience{2000};  // see above
    // How long a line that is too long to be held may stand still before other streams may cut it.
    std::chrono::milliseconds line_patience{1000};
    // A paused stream may go on: ask wants_pause() again. Called by a writer thread, or from within feed() and the
    // like; it may only wake the agent (asio::post).
    std::function<void()> on_room = [] {};
    // What comes before the prefix of each line, asked for when it is laid out; empty: nothing.
    std::function<std::string()> stamp = {};
    // Show identical lines of several workers once (line_folder.h), as "[0-7] ×8 text".
    bool fold = false;
    std::string fold_sign = "×";
  };

  explicit OutputRouter(Options options);
  ~OutputRouter();

  // A rank's stream in a later round gets the number that it had, so that restarts cost no memory.
  StreamId open_stream(StreamSpec spec);
  // Take the next bytes of a stream, at most 16 MiB at once.
  void feed(StreamId stream, std::string_view bytes, MonoTime now);
  // The stream ended: its last line is passed on and its file is closed.
  void end(StreamId stream, MonoTime now);

  // The agent should not read this stream now. Ask after each feed(), on_room and on_time().
  bool wants_pause(StreamId stream);
  // When to call on_time(), if at all: only while something is stuck, or a line waits to be folded.
  std::optional<MonoTime> deadline() const;
  void on_time(MonoTime now);

  // Put dtrain's own text on the error console, in order and between lines. Never dropped for a stuck console until its
  // queue is twice full. A missing last "\n" is added.
  void note(std::string_view text);

  // End all streams and wait until everything is written, at most until `deadline`. The last call but losses().
  void finish(MonoTime deadline);
  // What was not written, exact after finish().
  std::vector<Loss> losses() const;

 private:
  // A writer and what is known of its health.
  struct Sink {
    OutputWriter writer;
    StallWatch watch;
    Sink(size_t queue_bytes, const std::function<void()>& on_room, Duration patience)
        : writer(queue_bytes, on_room), watch(patience) {}
    void look(MonoTime now) { watch.look(writer.full(), writer.has_room(), writer.progress(), now); }
    bool pauses() { return writer.full() && !watch.dropping(); }
  };

  struct Console {
    Sink sink;
    std::string name;
    ConsoleText text;
    Block block;                         // being filled by the current feed
    std::vector<StreamId> waiting;       // streams that wait for the owner of a line, in order
    MonoTime line_moved{};               // when the owner last wrote
    std::unique_ptr<LineFolder> folder;  // made with the first stream that is folded
    StreamId folded = -1;                // the stream of the lines that it shows
    Console(const Options& options, std::string n, int fd);
  };

  struct Stream {
    StreamSpec spec;
    LineSplitter splitter;
    Console* console = nullptr;  // null: not shown
    int file_target = -1;
    std::unique_ptr<LinePicker> picker;           // null: no line is copied
    std::unique_ptr<LineSplitter> fold_splitter;  // null: lines are not folded
    std::string waiting;                          // bytes that wait for the console
    bool ended = false;
    bool dropping = false;  // the rest of the current line is dropped
  };

  using LossKey = std::tuple<std::string, StreamId, std::string>;

  StreamId number_of(const StreamSpec& spec);
  bool is_over(StreamId id) const;
  void to_file(StreamId id, std::string_view bytes, MonoTime now);
  void copy_lines(StreamId id, std::string_view bytes, MonoTime now);
  void to_console(StreamId id, std::string_view bytes);
  void lay_out(StreamId id, std::string_view bytes);
  void open_folding(Stream& stream, StreamId id);
  void fold(StreamId id, std::string_view bytes, MonoTime now);
  void unfold(Console& console);
  LineFolder::Show show_on(Console& console);
  std::string folded_prefix(const std::vector<int>& members) const;
  void put(StreamId id, const Piece& piece);
  void release(Console& console);
  void submit(Console& console);
  void lose(const std::string& sink, StreamId id, std::string_view bytes, const std::string& reason);
  Loss& loss(const std::string& sink, StreamId id, const std::string& reason);
  void collect(const OutputWriter& writer);

  Options options_;
  std::vector<std::unique_ptr<Stream>> streams_;         // [0]: dtrain's notes
  std::map<std::pair<int, Streams>, StreamId> numbers_;  // of the last stream of each rank and kind
  std::unique_ptr<Console> out_;
  std::unique_ptr<Console> err_;  // null when it is the same file as out_
  Sink files_;
  Block file_block_;
  std::string stamp_;    // of the lines that are being laid out
  bool stamps_ = false;  // whether they get one
  std::map<LossKey, Loss> losses_;
  bool releasing_ = false;  // within release()
};

}  // namespace dtrain::launcher
