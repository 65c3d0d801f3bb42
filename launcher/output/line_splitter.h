#pragma once
// LineSplitter cuts the bytes of one worker stream into pieces for the console. Pure: no descriptors, no clock.
//
//   "a\nb\rc"  ->  ["a\n" newline] ["b\r" carriage_return]  and holds "c"
//
// - A line ends with "\n" or "\r\n". A progress bar's "\r" ends a piece too and is passed on at once, so that the bar
//   shows its latest state; a "\n" that comes right after such a piece ends that line and starts no new one.
// - A line that is not finished is held, up to `hold_limit` bytes. What is longer is passed on in `open` pieces, so
// that
//   a line of any length costs bounded memory. With hold_limit 0 nothing is held: for a worker that has the terminal to
//   itself, whose prompts must appear at once.
// - Bytes are never changed, added or lost: the concatenation of all pieces is the input, NUL and invalid UTF-8
// included.
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace dtrain::launcher {

struct Piece {
  enum class End {
    newline,          // ends with "\n"
    carriage_return,  // ends with "\r": the next piece will overwrite this one on a terminal
    open,             // the line goes on in this stream's next piece
    stream,           // the stream ended within a line; `bytes` may be empty. The console adds a "\n" of its own
  };
  std::string_view bytes;  // valid only during the call
  bool line_start = true;  // put the prefix before these bytes
  End end = End::newline;
};

class LineSplitter {
 public:
  static constexpr size_t kHoldLimit = 64 * 1024;

  explicit LineSplitter(size_t hold_limit = kHoldLimit) : hold_limit_(hold_limit) {}

  // Take the next bytes of the stream and call emit(const Piece&) for each piece they complete.
  template <class Emit>
  void feed(std::string_view chunk, Emit&& emit);

  // The stream ended: pass on what is held and end an unfinished line.
  template <class Emit>
  void finish(Emit&& emit);

  // Bytes that no piece has carried yet, at most hold_limit.
  size_t held() const { return held_.size(); }
  std::string_view waiting() const { return held_; }

  // Pass on what is held as an open piece: its line goes on when more comes.
  template <class Emit>
  void let_go(Emit&& emit) {
    if (!held_.empty()) pass_on({}, Piece::End::open, emit);
  }

 private:
  static constexpr size_t kKeepCapacity = 4096;

  // A line end is "\n" or "\r"; both searches go over each chunk once, however often the two alternate.
  struct Scan {
    const char* newline;
    const char* carriage;
  };
  static const char* find(const char* from, const char* end, char c) {
    const void* hit = from == end ? nullptr : std::memchr(from, c, static_cast<size_t>(end - from));
    return hit ? static_cast<const char*>(hit) : end;
  }

  template <class Emit>
  void pass_on(std::string_view bytes, Piece::End end, Emit& emit);
  template <class Emit>
  void hold_or_pass(std::string_view rest, Emit& emit);

  size_t hold_limit_;
  std::string held_;             // the beginning of an unfinished line; empty when the line is open
  bool open_ = false;            // part of the current line has been passed on
  bool after_carriage_ = false;  // the last piece ended with "\r"
};

template <class Emit>
void LineSplitter::feed(std::string_view chunk, Emit&& emit) {
  const char* at = chunk.data();
  const char* const end = at + chunk.size();
  Scan next{find(at, end, '\n'), find(at, end, '\r')};
  while (at != end) {
    if (next.newline < at) next.newline = find(at, end, '\n');
    if (next.carriage < at) next.carriage = find(at, end, '\r');
    bool crlf = next.newline != end && next.carriage + 1 == next.newline;
    if (next.carriage < next.newline && !crlf) {
      pass_on({at, next.carriage + 1}, Piece::End::carriage_return, emit);
      at = next.carriage + 1;
    } else if (next.newline != end) {
      pass_on({at, next.newline + 1}, Piece::End::newline, emit);
      at = next.newline + 1;
    } else {
      hold_or_pass({at, end}, emit);
      at = end;
    }
  }
}

template <class Emit>
void LineSplitter::pass_on(std::string_view bytes, Piece::End end, Emit& emit) {
  bool completes_line = open_ || (after_carriage_ && held_.empty() && bytes == "\n");
  // A lone "\r" (progress bars begin with one) only moves the cursor: it needs no prefix.
  bool moves_cursor = held_.empty() && bytes == "\r";
  Piece piece{bytes, !completes_line && !moves_cursor, end};
  if (!held_.empty()) {
    held_ += bytes;
    piece.bytes = held_;
  }
  open_ = end == Piece::End::open;
  after_carriage_ = end == Piece::End::carriage_return;
  emit(static_cast<const Piece&>(piece));
  held_.clear();
  if (held_.capacity() > kKeepCapacity) held_ = std::string();  // one long line must not cost memory for ever
}

template <class Emit>
void LineSplitter::hold_or_pass(std::string_view rest, Emit& emit) {
  if (open_ || held_.size() + rest.size() > hold_limit_) {
    pass_on(rest, Piece::End::open, emit);
  } else {
    held_ += rest;
  }
}

template <class Emit>
void LineSplitter::finish(Emit&& emit) {
  if (open_ || !held_.empty()) pass_on({}, Piece::End::stream, emit);
  after_carriage_ = false;
}

}  // namespace dtrain::launcher
