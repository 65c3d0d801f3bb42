#include "cli/parse/spelling.h"

#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;

Words spelled_out(const Words& words) {
  auto out = spell_out(words);
  INFO((out.ok() ? "" : out.error().message));
  REQUIRE(out.ok());
  return out->words;
}

}  // namespace

TEST_CASE("names are written in full, and a value in the same word gets its own") {
  CHECK(spelled_out({"--no_p", "--log-d=x"}) == Words{"--no-python", "--log-dir", "x"});
  CHECK(spelled_out({"--nproc_per_node", "2"}) == Words{"--nproc", "2"});
  CHECK(spelled_out({"--role=", "train"}) == Words{"--role", "", "train"});
  CHECK(spelled_out({"-t=3"}) == Words{"-t", "3"});
  CHECK(spelled_out({"-t="}) == Words{"-t", ""});
  CHECK(spelled_out({"-mt3"}) == Words{"-mt", "3"});
  CHECK(spelled_out({"-m"}) == Words{"-m"});
}

TEST_CASE("the program's words stay as they are") {
  CHECK(spelled_out({"--no-p", "train", "--no-p", "-t=3"}) == Words{"--no-python", "train", "--no-p", "-t=3"});
  CHECK(spelled_out({"--tee", "3", "--", "--no-p"}) == Words{"--tee", "3", "--", "--no-p"});
  CHECK(spelled_out({"-", "--no-p"}) == Words{"-", "--no-p"});
  CHECK(spelled_out({}).empty());
}

TEST_CASE("the words end where a flag stands instead of a value") {
  CHECK(spelled_out({"--tee", "--no-p", "train"}) == Words{"--tee"});
  CHECK(spelled_out({"-t", "--", "train"}) == Words{"-t"});
  CHECK(spelled_out({"--tee", "-1", "train"}) == Words{"--tee", "-1", "train"});
}

TEST_CASE("flags are told as they were typed, in order") {
  auto out = spell_out(Words{"--nproc_per_node=2", "-mt3", "train", "-r3"});
  REQUIRE(out.ok());
  REQUIRE(out->flags.size() == 3);
  CHECK(out->flags[0].id == FlagId::nproc);
  CHECK(out->flags[0].typed == "--nproc_per_node");
  CHECK(out->flags[1].typed == "-m");
  CHECK(out->flags[2].id == FlagId::tee);
  CHECK(out->flags[2].typed == "-t");
}

}  // namespace dtrain::cli
