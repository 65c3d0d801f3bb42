// The chains of pieces that rows have for their ragged columns.
#include "data/base/tail_heap.h"

#include <array>
#include <random>
#include <string>
#include <string_view>

#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Rows of one column of strings.
struct Words {
  RowLayout layout = RowLayout({{"word", {{"word", ElementType::uint8, 0, true}}}});
  std::string letters;
  std::vector<std::int64_t> ends{0};

  void add(const std::string& word) {
    letters += word;
    ends.push_back(static_cast<std::int64_t>(letters.size()));
  }
  std::string word(std::size_t row) const {
    return letters.substr(static_cast<std::size_t>(ends[row]), static_cast<std::size_t>(ends[row + 1] - ends[row]));
  }
  ColumnSpan span() const { return {reinterpret_cast<const std::byte*>(letters.data()), ends.data()}; }
};

std::string read(const TailHeap& heap, const TailHeap::Tail& tail) {
  std::vector<std::byte> to(3);  // it appends
  heap.read(tail.first, to);
  return text(TailHeap::bytes(to.data() + 3, 0, 1));
}

}  // namespace

TEST_CASE("a tail has the bytes of each ragged column of its row, and of no fixed one") {
  const std::string_view letters = "oneseven";
  const std::array<std::int64_t, 4> words{0, 3, 3, 8}, lists{0, 1, 3, 3};
  const std::array<std::int32_t, 3> numbers{7, 8, 9};
  const RowLayout layout({{"word", {{"word", ElementType::uint8, 0, true}}},
                          {"id", {{"id", ElementType::int64}}},
                          {"list", {{"list", ElementType::int32, 0, true}}}});
  CHECK(layout.bytes == 8);
  const std::array<ColumnSpan, 3> columns{ColumnSpan{reinterpret_cast<const std::byte*>(letters.data()), words.data()},
                                          ColumnSpan{},
                                          ColumnSpan{reinterpret_cast<const std::byte*>(numbers.data()), lists.data()}};
  TailHeap heap(2, GENERATE(8U, 16U, 32U));
  std::vector<std::byte> tails;
  std::vector<std::size_t> at;
  for (const std::size_t row : {0U, 1U, 2U}) {
    const TailHeap::Tail tail = heap.write(layout, columns, row);
    at.push_back(tails.size());
    heap.read(tail.first, tails);
  }
  const auto bytes = [&](std::size_t row, std::size_t column) {
    return TailHeap::bytes(tails.data() + at[row], column, 2);
  };
  CHECK(text(bytes(0, 0)) == "one");
  CHECK(bytes(1, 0).empty());
  CHECK(text(bytes(2, 0)) == "seven");
  CHECK(bytes(1, 1).size() == 8);
  CHECK(bytes(1, 1)[0] == std::byte{8});
  CHECK(bytes(2, 1).empty());
}

TEST_CASE("pieces of rows that have left serve the next rows, and another heap reads them") {
  Words words;
  std::mt19937 draw(7);
  for (int row = 0; row < 4000; ++row) words.add(std::string(draw() % 300, static_cast<char>('a' + row % 26)));
  words.add(std::string(20'000, 'x'));
  const ColumnSpan column = words.span();
  std::vector<std::byte> memory(64'000);
  TailHeap heap(1, 32, memory);
  const TailHeap other(1, 32, memory);
  std::vector<std::pair<std::size_t, TailHeap::Tail>> waiting;
  for (std::size_t row = 0; row <= 4000; ++row) {
    if (waiting.size() == 100) {
      const std::size_t which = draw() % waiting.size();
      const auto [left, tail] = waiting[which];
      CHECK(read(other, tail) == words.word(left));
      heap.free(tail);
      waiting[which] = waiting.back();
      waiting.pop_back();
    }
    waiting.emplace_back(row, heap.write(words.layout, {&column, 1}, row));
  }
  for (const auto& [row, tail] : waiting) CHECK(read(other, tail) == words.word(row));
  CHECK_THROWS_AS(
      [&] {
        for (;;) heap.write(words.layout, {&column, 1}, 4000);
      }(),
      std::length_error);
}

TEST_CASE("a heap of its own grows") {
  Words words;
  words.add(std::string(3'000'000, 'y'));
  words.add("");
  const ColumnSpan column = words.span();
  TailHeap heap(1, TailHeap::piece_for(100));
  const TailHeap::Tail tail = heap.write(words.layout, {&column, 1}, 0);
  CHECK(read(heap, heap.write(words.layout, {&column, 1}, 1)).empty());
  CHECK(read(heap, tail) == words.word(0));
}

TEST_CASE("long tails have long pieces, within limits") {
  CHECK(TailHeap::piece_for(0) == 32);
  CHECK(TailHeap::piece_for(512) == 64);
  CHECK(TailHeap::piece_for(8192) == 256);
  CHECK(TailHeap::piece_for(std::size_t{1} << 40) == 4096);
  CHECK(TailHeap::bytes_for(0) == 16);
  CHECK(TailHeap::bytes_for(600) == 600 + 600 * 4 / 124 + 64);
}
