#include "launcher/output/console_text.h"

namespace dtrain::launcher {

void ConsoleText::append(Block& block, StreamId stream, std::string_view prefix, const Piece& piece, bool yields) {
  bool other = stream != last_;
  if (state_ == State::within_line && (other || piece.line_start)) {
    block.append("\n", {}, stream);
    state_ = State::line_start;
  }
  const bool erases = state_ == State::after_bar ? other || shared_ : shared_ && state_ == State::line_start;
  if (erases && terminal_) block.append("\x1b[K", {}, stream);

  // The rest of a line that was cut gets a prefix again; a mere line end does not.
  bool goes_on_after_cut =
      other && !piece.line_start && !piece.bytes.empty() && piece.bytes != "\n" && piece.bytes != "\r";
  block.append(piece.line_start || goes_on_after_cut ? prefix : std::string_view(), piece.bytes, stream);

  switch (piece.end) {
    case Piece::End::newline:
      state_ = State::line_start;
      break;
    case Piece::End::carriage_return:
      // A lone "\r" ends what stands before it, also when that was passed on unfinished.
      if (piece.bytes != "\r" || state_ == State::within_line) state_ = State::after_bar;
      break;
    case Piece::End::open:
      state_ = State::within_line;
      break;
    case Piece::End::stream:
      if (!piece.bytes.empty() || state_ == State::within_line) block.append("\n", {}, stream);
      state_ = State::line_start;
      break;
  }
  last_ = stream;
  may_cut_ = yields;
}

}  // namespace dtrain::launcher
