#include "launcher/tail_buffer.h"

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

}  // namespace dtrain::launcher
