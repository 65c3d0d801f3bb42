#include "launcher/output/line_splitter.h"

#include <random>
#include <vector>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using End = Piece::End;

struct Seen {
  std::string bytes;
  bool line_start;
  End end;
  bool operator==(const Seen&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << '{' << Catch::StringMaker<std::string>::convert(seen.bytes) << ' ' << seen.line_start << ' '
             << int(seen.end) << '}';
}

std::vector<Seen> split(const std::vector<std::string>& chunks, size_t hold_limit = LineSplitter::kHoldLimit) {
  std::vector<Seen> seen;
  LineSplitter splitter(hold_limit);
  auto emit = [&](const Piece& piece) { seen.push_back({std::string(piece.bytes), piece.line_start, piece.end}); };
  for (const std::string& chunk : chunks) splitter.feed(chunk, emit);
  splitter.finish(emit);
  return seen;
}

}  // namespace

TEST_CASE("whole lines come out whole, however they came in") {
  std::vector<Seen> expected = {
      {"one\n", true, End::newline}, {"\n", true, End::newline}, {"two\n", true, End::newline}};
  CHECK(split({"one\n\ntwo\n"}) == expected);
  CHECK(split({"o", "ne", "\n", "\ntw", "o\n"}) == expected);
}

TEST_CASE("a last line without newline is passed on at the end") {
  CHECK(split({"a\nb"}) == std::vector<Seen>{{"a\n", true, End::newline}, {"b", true, End::stream}});
  CHECK(split({"a\n"}).size() == 1);
  CHECK(split({}).empty());
}

TEST_CASE("carriage returns end pieces at once") {
  CHECK(split({"10%\r20%\rdone\n"}) == std::vector<Seen>{{"10%\r", true, End::carriage_return},
                                                         {"20%\r", true, End::carriage_return},
                                                         {"done\n", true, End::newline}});
  // tqdm begins each state with "\r": the lone one gets no prefix.
  CHECK(split({"\r 0%", "\r 9%", "\n"}) == std::vector<Seen>{{"\r", false, End::carriage_return},
                                                             {" 0%\r", true, End::carriage_return},
                                                             {" 9%\n", true, End::newline}});
}

TEST_CASE("CRLF is one line end, also when a chunk ends between the two") {
  CHECK(split({"a\r\nb\r\n"}) == std::vector<Seen>{{"a\r\n", true, End::newline}, {"b\r\n", true, End::newline}});
  CHECK(split({"a\r", "\nb\n"}) == std::vector<Seen>{{"a\r", true, End::carriage_return},
                                                     {"\n", false, End::newline},
                                                     {"b\n", true, End::newline}});
}

TEST_CASE("a line over the limit goes on in open pieces and is ended once") {
  CHECK(split({"abc", "def", "gh\ni\n"}, 4) ==
        std::vector<Seen>{{"abcdef", true, End::open}, {"gh\n", false, End::newline}, {"i\n", true, End::newline}});
  CHECK(split({"abcdef"}, 4) == std::vector<Seen>{{"abcdef", true, End::open}, {"", false, End::stream}});
}

TEST_CASE("with no hold limit a prompt appears at once") {
  CHECK(split({"name: ", "\n"}, 0) == std::vector<Seen>{{"name: ", true, End::open}, {"\n", false, End::newline}});
}

TEST_CASE("a line of 100 MB is never held") {
  LineSplitter splitter;
  std::string chunk(1 << 20, 'x');
  size_t passed = 0;
  size_t starts = 0;
  auto emit = [&](const Piece& piece) {
    passed += piece.bytes.size();
    starts += piece.line_start;
  };
  for (int i = 0; i < 100; ++i) {
    splitter.feed(chunk, emit);
    REQUIRE(splitter.held() <= LineSplitter::kHoldLimit);
  }
  splitter.finish(emit);
  CHECK(passed == 100 * chunk.size());
  CHECK(starts == 1);
}

TEST_CASE("no byte is changed or lost in any chunking") {
  std::mt19937 random(20261121);
  const std::string alphabet("a\n\r\0\xff\xc3", 6);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string input;
    for (unsigned n = random() % 60; n > 0; --n) input += alphabet[random() % alphabet.size()];
    std::vector<std::string> chunks;
    for (size_t at = 0; at < input.size();) {
      chunks.push_back(input.substr(at, 1 + random() % 9));
      at += chunks.back().size();
    }
    std::string output;
    for (const Seen& seen : split(chunks, random() % 12)) output += seen.bytes;
    REQUIRE(output == input);
  }
}

}  // namespace dtrain::launcher
