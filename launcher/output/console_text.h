#pragma once
// ConsoleText lays the pieces of all streams out on one console so that no line is torn. Pure: it fills a Block.
//
// A stream that is within a line owns the console until the line ends; the others wait (admits() is false). Three
// things soften that: an owner that yields (its unfinished text is a prompt) and one that was interrupted (it stalled)
// may be cut, with a "\n" of ours, and go on later behind a new prefix; a progress bar's "\r" leaves the console free.
#include <string_view>

#include "launcher/output/line_splitter.h"
#include "launcher/output/output_block.h"

namespace dtrain::launcher {

class ConsoleText {
 public:
  // terminal: what was drawn by another stream's progress bar is erased before a line overwrites it.
  // shared: other processes write there too, so a bar of theirs may stand where any line begins.
  explicit ConsoleText(bool terminal, bool shared = false) : terminal_(terminal), shared_(shared) {}

  // Whether `stream` may write now.
  bool admits(StreamId stream) const { return state_ != State::within_line || stream == last_ || may_cut_; }

  // Append a piece of an admitted stream. yields: others may cut this line where it stops.
  void append(Block& block, StreamId stream, std::string_view prefix, const Piece& piece, bool yields);

  // Let the others cut the line that is open now.
  void interrupt() { may_cut_ = true; }

  bool within_line() const { return state_ == State::within_line; }
  // The stream that wrote last; within a line, its owner.
  StreamId last() const { return last_; }

 private:
  enum class State { line_start, within_line, after_bar };

  bool terminal_, shared_;
  State state_ = State::line_start;
  StreamId last_ = -1;
  bool may_cut_ = false;
};

}  // namespace dtrain::launcher
