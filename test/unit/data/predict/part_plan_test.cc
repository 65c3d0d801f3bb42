#include "data/predict/part_plan.h"

#include <string>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain::data;

namespace {

PartsPlan plan_of_two() {
  PartsPlan plan;
  plan.script = "0a";
  plan.arguments = {"model.pt", "\"quoted\""};
  plan.files = {{"/in/a.parquet", 100, 7, {10, 0, 5}}, {"/in/b.parquet", 50, 8, {3}}};
  return plan;
}

}  // namespace

TEST_CASE("parts are the row groups that have rows, in their order") {
  const auto parts = parts_of(plan_of_two().files);
  REQUIRE(parts.size() == 3);
  CHECK(parts[1].number == 1);
  CHECK(parts[1].file == 0);
  CHECK(parts[1].group == 2);
  CHECK(parts[1].first == 10);
  CHECK(parts[1].rows == 5);
  CHECK(parts[2].file == 1);
  CHECK(parts[2].first == 0);
  CHECK(part_words(parts[1], "/in/a.parquet") == "row group 2 of /in/a.parquet (rows 10 to 14)");
}

TEST_CASE("the names of results are in the order of the parts, as those of Python's workers") {
  CHECK(result_name(3, 14) == "part-00003.parquet");
  CHECK(result_name(3, 100000) == "part-000003.parquet");
  CHECK(name_beside(3, "lock") == "00003.lock");
}

TEST_CASE("a plan is what it was when it is read again, and what Python writes is one") {
  const auto read = parse_plan(plan_text(plan_of_two()));
  REQUIRE(read);
  CHECK(plan_difference(plan_of_two(), *read, "./p").empty());
  CHECK(read->files[0].row_groups == std::vector<std::int64_t>{10, 0, 5});
  const auto python = parse_plan(R"({"format": 1, "kind": "predict", "script": "0a", "arguments": ["model.pt",
      "\"quoted\""], "files": [{"path": "/in/a.parquet", "bytes": 100, "mtime_ns": 7, "row_groups": [10, 0, 5]},
      {"path": "/in/b.parquet", "bytes": 50, "mtime_ns": 8, "row_groups": [3]}]})");
  REQUIRE(python);
  CHECK(plan_difference(plan_of_two(), *python, "./p").empty());
  CHECK_FALSE(parse_plan("{}"));
  CHECK_FALSE(parse_plan("no JSON"));
}

TEST_CASE("results of another plan are refused with the reason") {
  const auto why = [](auto change) {
    PartsPlan theirs = plan_of_two();
    change(theirs);
    return plan_difference(plan_of_two(), theirs, "./p");
  };
  CHECK(why([](PartsPlan& plan) { plan.format = 2; }) == "was written by another version of dtrain");
  CHECK(why([](PartsPlan& plan) { plan.kind = "process"; }) == "is not of predict()");
  CHECK(why([](PartsPlan& plan) { plan.script = "0b"; }) == "was made with another ./p");
  CHECK(why([](PartsPlan& plan) { plan.arguments.pop_back(); }) == "was made with other arguments");
  CHECK(why([](PartsPlan& plan) { plan.files[1].mtime_ns = 9; }) == "was made of other input files");
  CHECK(why([](PartsPlan& plan) { plan.files.pop_back(); }) == "was made of other input files");
}

TEST_CASE("a program's digest tells one build from another") {
  const auto digest = [](const std::string& text) {
    ProgramDigest all;
    all.add(text.data(), text.size());
    return all.text();
  };
  CHECK(digest("program 1").size() == 32);
  CHECK(digest("program 1") != digest("program 2"));
  CHECK(digest("abc") != digest(std::string("abc\0", 4)));
  CHECK(digest("abcdefgh12345678") != digest("12345678abcdefgh"));
}
