#pragma once
// Cuts a log file into lines, and picks those that `dtrain logs` is to show. Pure but for the
// time zone.
//
// A line's time is what it begins with, as --timestamps writes it or Python's logging: 2026-11-21T13:22:03.123+01:00,
// 2026-11-21 13:22:03,123 (local), with a Z, or without fractions. A line without one has that of the line before it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/output/line_splitter.h"

namespace dtrain::cli {

// Milliseconds since 1970, or nothing if the line does not begin with a time.
std::optional<int64_t> line_time(std::string_view line);

// Whether one of the lines at the beginning of a file has a time.
bool carries_times(std::string_view beginning);

struct LogPiece {
  std::string_view bytes;          // valid only during the call
  bool ends = true;                // the line ends here; else it goes on in the file's next piece
  std::optional<int64_t> time_ms;  // of the line
};

struct LineFilter {
  std::string text;                 // lines that contain it; empty: all
  std::optional<int64_t> since_ms;  // lines of that time or later; a line that has no time, nor one before it, counts
                                    // as earlier
};

class LogLines {
 public:
  explicit LogLines(LineFilter filter) : filter_(std::move(filter)) {}

  // Take the file's next bytes and call emit(const LogPiece&) for what is to be shown. A line beyond 64 KiB is judged
  // in pieces, and shown from the first that fits.
  template <class Emit>
  void feed(std::string_view bytes, Emit&& emit) {
    splitter_.feed(bytes, [&](const launcher::Piece& piece) { judge(piece, emit); });
  }
  // The file ended.
  template <class Emit>
  void finish(Emit&& emit) {
    splitter_.finish([&](const launcher::Piece& piece) { judge(piece, emit); });
  }
  // Nothing came for a while: show the beginning of an unfinished line if the line will be shown however it goes on.
  template <class Emit>
  void quiet(Emit&& emit) {
    if (waits()) splitter_.let_go([&](const launcher::Piece& piece) { judge(piece, emit); });
  }
  bool waits() const {
    const std::string_view begun = splitter_.waiting();
    return !begun.empty() && fits(begun, time_after(begun));
  }

 private:
  std::optional<int64_t> time_after(std::string_view line) const {
    const auto own = line_time(line);
    return own ? own : time_ms_;
  }
  bool fits(std::string_view bytes, std::optional<int64_t> time_ms) const {
    if (filter_.since_ms && (!time_ms || *time_ms < *filter_.since_ms)) return false;
    return bytes.find(filter_.text) != std::string_view::npos;
  }

  template <class Emit>
  void judge(const launcher::Piece& piece, Emit& emit) {
    using End = launcher::Piece::End;
    // What is left of a "\r\n" whose "\r" has ended the line already; and a "\r" that only moves the cursor.
    const bool leftover = after_carriage_ && !piece.line_start && piece.bytes == "\n";
    const bool cursor = piece.bytes == "\r" && !piece.line_start && !begun_;
    after_carriage_ = piece.end == End::carriage_return && !cursor;
    if (leftover || cursor) return;
    if (!begun_) time_ms_ = time_after(piece.bytes);
    shown_ = shown_ || fits(piece.bytes, time_ms_);
    const bool ends = piece.end != End::open;
    if (shown_) emit(LogPiece{piece.bytes, ends, time_ms_});
    shown_ = shown_ && !ends;
    begun_ = !ends;
  }

  LineFilter filter_;
  launcher::LineSplitter splitter_;
  std::optional<int64_t> time_ms_;
  bool begun_ = false;  // within a line
  bool shown_ = false;  // of which something has been shown
  bool after_carriage_ = false;
};

}  // namespace dtrain::cli
