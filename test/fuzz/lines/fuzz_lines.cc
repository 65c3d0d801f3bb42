// Fuzzes LineSplitter: whatever the bytes, the chunks and the hold limit, no byte is lost or changed, what is held
// stays within the limit, and the pieces keep their promises.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcher/line_splitter.h"

using dtrain::launcher::LineSplitter;
using dtrain::launcher::Piece;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Takes the pieces and checks each against the one before.
struct Checker {
  std::string output;
  bool open = false;

  void operator()(const Piece& piece) {
    output += piece.bytes;
    if (open) require(!piece.line_start);
    bool has_newline = piece.bytes.find('\n') != std::string_view::npos;
    switch (piece.end) {
      case Piece::End::newline:
        require(piece.bytes.find('\n') == piece.bytes.size() - 1);
        break;
      case Piece::End::carriage_return:
        require(!has_newline && piece.bytes.ends_with('\r'));
        break;
      case Piece::End::open:
        require(!has_newline && !piece.bytes.empty());
        break;
      case Piece::End::stream:
        require(!has_newline && (open || !piece.bytes.empty()));
        break;
    }
    open = piece.end == Piece::End::open;
  }
};

}  // namespace

// Byte 0: the hold limit; byte 1: drives the lengths of the chunks; the rest: the stream.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t hold_limit = data[0];
  uint32_t chunk_seed = data[1];
  const std::string input(reinterpret_cast<const char*>(data) + 2, size - 2);

  LineSplitter splitter(hold_limit);
  Checker checker;
  for (size_t at = 0; at < input.size();) {
    chunk_seed = chunk_seed * 1664525 + 1013904223;
    // A copy of the exact length lets the address sanitizer see a read behind the chunk.
    const std::string chunk = input.substr(at, 1 + (chunk_seed >> 28) * (chunk_seed >> 20 & 3));
    splitter.feed(chunk, checker);
    at += chunk.size();
    require(splitter.held() <= hold_limit);
    require(checker.output.size() + splitter.held() == at);
  }
  splitter.finish(checker);
  require(checker.output == input);
  return 0;
}
