#pragma once
// LinePicker finds the lines of one stream that contain one of some texts. Pure.
//
// What a carriage return ends counts as a line. One longer than LineSplitter::kHoldLimit is judged, and passed on, in
// pieces as they come, so that a line of any length costs bounded memory.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/line_splitter.h"

namespace dtrain::launcher {

class LinePicker {
 public:
  explicit LinePicker(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  // Take the next bytes and call emit(std::string_view) for each line that was found, with its line end if it has one.
  template <class Emit>
  void feed(std::string_view bytes, Emit&& emit) {
    splitter_.feed(bytes, [&](const Piece& piece) { judge(piece, emit); });
  }
  // The stream ended.
  template <class Emit>
  void finish(Emit&& emit) {
    splitter_.finish([&](const Piece& piece) { judge(piece, emit); });
  }

 private:
  template <class Emit>
  void judge(const Piece& piece, Emit& emit) {
    for (const std::string& text : texts_) {
      if (piece.bytes.find(text) == std::string_view::npos) continue;
      emit(piece.bytes);
      return;
    }
  }

  std::vector<std::string> texts_;
  LineSplitter splitter_;
};

}  // namespace dtrain::launcher
