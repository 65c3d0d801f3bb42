// Fuzzes LineSplitter: whatever the bytes, the chunks and the hold limit, no byte is lost or changed, what is held
// stays within the limit, and the pieces keep their promises.
#include <cstdint>
#include <string>

#include "launcher/output/line_splitter.h"
#include "rendezvous/base/check.h"

using dtrain::launcher::LineSplitter;
using dtrain::launcher::Piece;

namespace {

// Takes the pieces and checks each against the one before.
struct Checker {
  std::string output;
  bool open = false;

  void operator()(const Piece& piece) {
    output += piece.bytes;
    if (open) DT_CHECK(!piece.line_start, "an open line goes on");
    bool has_newline = piece.bytes.find('\n') != std::string_view::npos;
    switch (piece.end) {
      case Piece::End::newline:
        DT_CHECK(piece.bytes.find('\n') == piece.bytes.size() - 1, "one line, with its end");
        break;
      case Piece::End::carriage_return:
        DT_CHECK(!has_newline && piece.bytes.ends_with('\r'), "it ends with a carriage return");
        break;
      case Piece::End::open:
        DT_CHECK(!has_newline && !piece.bytes.empty(), "a part of a line");
        break;
      case Piece::End::stream:
        DT_CHECK(!has_newline && (open || !piece.bytes.empty()), "the rest of a line");
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
    DT_CHECK(splitter.held() <= hold_limit, "what is held stays within the limit");
    DT_CHECK(checker.output.size() + splitter.held() == at, "every byte is out or held");
  }
  splitter.finish(checker);
  DT_CHECK(checker.output == input, "no byte is lost or changed");
  return 0;
}
