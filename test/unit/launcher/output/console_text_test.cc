#include "launcher/output/console_text.h"

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using End = Piece::End;

// Streams 0 and 1 write as "[0] " and "[1] ".
struct Screen {
  ConsoleText text;
  Block block;

  explicit Screen(bool terminal, bool shared = false) : text(terminal, shared) {}
  void put(StreamId stream, std::string_view bytes, End end, bool line_start = true, bool yields = false) {
    REQUIRE(text.admits(stream));
    text.append(block, stream, stream == 0 ? "[0] " : "[1] ", {bytes, line_start, end}, yields);
  }
  std::string shown() const { return {block.data(), block.size()}; }
};

}  // namespace

TEST_CASE("each line has its prefix") {
  Screen screen(false);
  screen.put(0, "a\n", End::newline);
  screen.put(1, "\n", End::newline);
  CHECK(screen.shown() == "[0] a\n[1] \n");
}

TEST_CASE("on a terminal that others share each line erases the bar that may stand there") {
  Screen screen(true, true);
  screen.put(0, "a\n", End::newline);
  screen.put(0, "b", End::open);
  screen.put(0, "c\n", End::newline, false);
  CHECK(screen.shown() == "\x1b[K[0] a\n\x1b[K[0] bc\n");
  Screen pipe(false, true);
  pipe.put(0, "a\n", End::newline);
  CHECK(pipe.shown() == "[0] a\n");
}

TEST_CASE("an open line keeps the others out until it ends") {
  Screen screen(false);
  screen.put(0, "long", End::open);
  CHECK_FALSE(screen.text.admits(1));
  screen.put(0, " line\n", End::newline, false);
  screen.put(1, "b\n", End::newline);
  CHECK(screen.shown() == "[0] long line\n[1] b\n");
}

TEST_CASE("an interrupted line is cut and goes on behind a prefix") {
  Screen screen(false);
  screen.put(0, "long", End::open);
  screen.text.interrupt();
  screen.put(1, "b\n", End::newline);
  screen.put(0, "er\n", End::newline, false);
  CHECK(screen.shown() == "[0] long\n[1] b\n[0] er\n");
}

TEST_CASE("a line that was cut at its very end is not ended twice") {
  Screen screen(false);
  screen.put(0, "long", End::open);
  screen.text.interrupt();
  screen.put(1, "b\n", End::newline);
  screen.put(0, "", End::stream, false);
  CHECK(screen.shown() == "[0] long\n[1] b\n");
}

TEST_CASE("a prompt gives way") {
  Screen screen(false);
  screen.put(0, "name: ", End::open, true, true);
  screen.put(1, "b\n", End::newline);
  CHECK(screen.shown() == "[0] name: \n[1] b\n");
}

TEST_CASE("the end of a stream ends its line") {
  Screen screen(false);
  screen.put(0, "held", End::stream);
  screen.put(1, "open", End::open);
  screen.put(1, "", End::stream, false);
  CHECK(screen.shown() == "[0] held\n[1] open\n");
}

TEST_CASE("a terminal is cleared of another stream's bar") {
  for (bool terminal : {false, true}) {
    Screen screen(terminal);
    screen.put(0, "10%\r", End::carriage_return);
    screen.put(0, "20%\r", End::carriage_return);
    screen.put(1, "b\n", End::newline);
    screen.put(0, "\r", End::carriage_return, false);
    screen.put(1, "c\n", End::newline);
    std::string erase = terminal ? "\x1b[K" : "";
    CHECK(screen.shown() == "[0] 10%\r[0] 20%\r" + erase + "[1] b\n\r[1] c\n");
  }
}

TEST_CASE("a CRLF that came in two pieces is one line end") {
  Screen screen(true);
  screen.put(0, "a\r", End::carriage_return);
  screen.put(0, "\n", End::newline, false);
  screen.put(1, "b\n", End::newline);
  CHECK(screen.shown() == "[0] a\r\n[1] b\n");
}

}  // namespace dtrain::launcher
