// meta.json there and back.
#include "data/cache/meta_wire.h"

#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

CacheMeta example_meta() {
  CacheMeta meta;
  meta.key = std::string(64, 'a');
  meta.recipe = {{"seed", 1}};
  meta.inputs = {{"/in/a.csv", 10, 5, ""}, {"/in/b.csv", 20, 6, "ff"}};
  meta.files = {{"recipe.json", 3, "aa"}, {"train/part-00000.parquet", 70, "bb"}};
  meta.rows = {{"train", 9}, {"test", 1}};
  meta.made = 1000;
  meta.seconds = 2.5;
  return meta;
}

}  // namespace

TEST_CASE("meta.json is read as it was written") {
  const auto read = parse_meta(meta_text(example_meta()));
  REQUIRE(read);
  CHECK(meta_text(*read) == meta_text(example_meta()));
  CHECK(read->bytes() == 73);
  CHECK(read->all_rows() == 10);
  CHECK(read->inputs[1].sha256 == "ff");
}

TEST_CASE("what is no meta.json, or names files elsewhere, is none") {
  const std::string good = meta_text(example_meta());
  CHECK_FALSE(parse_meta(""));
  CHECK_FALSE(parse_meta(good.substr(0, good.size() / 2)));
  CHECK_FALSE(parse_meta("[]"));
  for (const char* path : {"", "/etc/passwd", "../x", "train/../../x"}) {
    CacheMeta meta = example_meta();
    meta.files[0].path = path;
    CHECK_FALSE(parse_meta(meta_text(meta)));
  }
}
