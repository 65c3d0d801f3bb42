#include "data/recipe/column_type.h"

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("recipe: each type has a name, and its name is that type") {
  for (int at = 0; at < static_cast<int>(ColumnType::other); ++at) {
    const auto type = static_cast<ColumnType>(at);
    CHECK(column_type_of(name_of(type)) == type);
  }
  CHECK(!column_type_of("float"));
  CHECK(!column_type_of(name_of(ColumnType::other)));
  CHECK(column_type_names().starts_with("bool, int8"));
  CHECK(column_type_names().ends_with("float64, string"));
}

TEST_CASE("recipe: what types are, and their bytes") {
  CHECK(is_integer(ColumnType::uint64));
  CHECK(!is_integer(ColumnType::boolean));
  CHECK(is_float(ColumnType::float16));
  CHECK(!is_number(ColumnType::text));
  CHECK(value_bytes(ColumnType::uint16) == 2);
  CHECK(value_bytes(ColumnType::float64) == 8);
  CHECK(value_bytes(ColumnType::text) == 0);
  CHECK(value_bytes(ColumnType::other) == 0);
}
