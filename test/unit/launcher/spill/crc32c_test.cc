#include "launcher/spill/crc32c.h"

#include <string>

#include "test/support/catch.h"

using namespace dtrain::launcher;

TEST_CASE("a spilled state's CRC-32C is that of RFC 3720, by the instruction and by the table") {
  for (const auto sum : {crc32c, crc32c_by_table}) {
    CHECK(sum(0, "123456789", 9) == 0xE3069283U);
    CHECK(sum(0, std::string(32, '\0').data(), 32) == 0x8A9136AAU);
    CHECK(sum(0, "", 0) == 0);
    std::string text;
    for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
    for (const std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{999}})
      CHECK(sum(sum(0, text.data(), cut), text.data() + cut, text.size() - cut) == crc32c(0, text.data(), text.size()));
  }
}
