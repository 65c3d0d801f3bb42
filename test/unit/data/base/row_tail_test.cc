// The block that a row has for its ragged columns.
#include "data/base/row_tail.h"

#include <array>
#include <string_view>

#include "test/support/catch.h"

using namespace dtrain::data;

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
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  CHECK(text(RowTail(layout, columns, 0).bytes(0, 2)) == "one");
  CHECK(RowTail(layout, columns, 1).bytes(0, 2).empty());
  CHECK(text(RowTail(layout, columns, 2).bytes(0, 2)) == "seven");
  const RowTail second(layout, columns, 1);
  CHECK(second.bytes(1, 2).size() == 8);
  CHECK(second.bytes(1, 2)[0] == std::byte{8});
  CHECK(RowTail(layout, columns, 2).bytes(1, 2).empty());
}
