#pragma once
// LinePicker finds the lines of one stream that contain one of some texts. Pure.
//
// What a carriage return ends counts as a line. One longer than LineSplitter::kHoldLimit is judged, and passed on, in
// pieces as they come, so that a line of any length costs bounded memory.
#include <memory>
#include <string_view>
#include <utility>

#include "launcher/output/line_splitter.h"
#include "launcher/output/text_search.h"

namespace dtrain::launcher {

class LinePicker {
 public:
  explicit LinePicker(std::shared_ptr<const TextSearch> texts) : texts_(std::move(texts)) {}

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
    if (texts_->found_in(piece.bytes)) emit(piece.bytes);
  }

  std::shared_ptr<const TextSearch> texts_;  // many streams have the same
  LineSplitter splitter_;
};

}  // namespace dtrain::launcher
