#include "data/base/packed.h"

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("packed values come back in their order, and bytes that end too early are an error") {
  Packer packer;
  packer.put(std::int64_t{-7});
  packer.put_text(std::string_view("a\0\xff", 3));
  packer.put_list(std::vector<double>{0.5, -0.0});
  packer.put_list(std::vector<std::uint32_t>{});
  const std::string bytes = packer.take();
  Unpacker unpacker(bytes);
  CHECK(unpacker.get<std::int64_t>() == -7);
  CHECK(unpacker.text() == std::string_view("a\0\xff", 3));
  CHECK(unpacker.list<double>() == std::vector<double>{0.5, -0.0});
  CHECK_FALSE(unpacker.at_end());
  CHECK(unpacker.list<std::uint32_t>().empty());
  CHECK(unpacker.at_end());
  Unpacker cut(std::string_view(bytes).substr(0, 18));
  cut.get<std::int64_t>();
  CHECK_THROWS_AS(cut.text(), dtrain::DataError);
  const std::string huge(8, '\xff');
  CHECK_THROWS_AS(Unpacker(huge).text(), dtrain::DataError);
}
