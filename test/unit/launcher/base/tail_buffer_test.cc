#include "launcher/base/tail_buffer.h"

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  TailBuffer tail;
  tail.add(text);
  return tail.lines();
}

}  // namespace

TEST_CASE("the last lines come without their ends") {
  CHECK(lines_of("").empty());
  CHECK(lines_of("a") == Lines{"a"});
  CHECK(lines_of("a\nb\n") == Lines{"a", "b"});
  CHECK(lines_of("a\n\nb") == Lines{"a", "", "b"});
  CHECK(lines_of("\n") == Lines{""});
  CHECK(lines_of("a\r\nb\r\n") == Lines{"a", "b"});
}

TEST_CASE("of a progress bar only the last state is kept") {
  CHECK(lines_of("\r 0%\r 50%\r100%\nerror\n") == Lines{"100%", "error"});
  CHECK(lines_of("\r 0%\r 50%\r") == Lines{" 50%"});
}

TEST_CASE("only the last lines are kept, and memory is bounded") {
  TailBuffer tail;
  for (int i = 0; i < 1'000'000; ++i) tail.add("line " + std::to_string(i) + "\n");
  Lines lines = tail.lines();
  REQUIRE(lines.size() == TailBuffer::kLines);
  CHECK(lines.front() == "line 999980");
  CHECK(lines.back() == "line 999999");
}

TEST_CASE("a line that was cut at the front is left out unless it is all there is") {
  TailBuffer tail;
  tail.add(std::string(TailBuffer::kBytes + 10, 'x'));
  REQUIRE(tail.lines().size() == 1);
  CHECK(tail.lines()[0].size() == TailBuffer::kBytes);
  tail.add("\nend\n");
  CHECK(tail.lines() == Lines{"end"});
  tail.clear();
  CHECK(tail.empty());
  CHECK(tail.lines().empty());
}

TEST_CASE("the lists that torch prints below a message are folded, so that the message is there") {
  std::string text = "terminate called after throwing an instance of 'c10::Error'\n  what():  the message\n";
  text += "Exception raised from unpack at saved_variable.cpp:195 (most recent call first):\n";
  for (int i = 0; i < 30; ++i) text += "frame #" + std::to_string(i) + ": f() + 0x9d (0x7f)\n";
  CHECK(lines_of(text + "\nend\n") ==
        Lines{"terminate called after throwing an instance of 'c10::Error'", "  what():  the message",
              "Exception raised from unpack at saved_variable.cpp:195 (most recent call first):",
              "... (30 lines of torch's list)", "", "end"});
  std::string kernels = "Could not run 'aten::empty' with arguments from the 'CUDA' backend.\n";
  for (int i = 0; i < 25; ++i) kernels += "CPU: registered at RegisterCPU.cpp:31357 [kernel]\n";
  CHECK(lines_of(kernels).size() == 2);
  CHECK(lines_of(kernels).front().starts_with("Could not run"));
  CHECK(lines_of("[rank0]: x\n[rank0]: frame #0: a\n[rank0]: frame #1: b\n[rank0]: frame #2: c\n").size() == 2);
}

TEST_CASE("a few such lines stay as they are, and a list without an end is bounded") {
  CHECK(lines_of("frame #0: a\nframe #1: b\n") == Lines{"frame #0: a", "frame #1: b"});
  CHECK(lines_of("the frame #0: a\nthe frame #1: b\nthe frame #2: c\n").size() == 3);
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "frame #1: f\n";
  CHECK(lines_of(text).size() == 1);
  std::string pairs;
  for (int i = 0; i < 100; ++i) pairs += "frame #0: a\nframe #1: b\nx\n";
  CHECK(lines_of(pairs).size() == TailBuffer::kLines);
}

}  // namespace dtrain::launcher
