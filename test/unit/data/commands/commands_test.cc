// What dtrain-data prints.
#include "data/base/one_line.h"
#include "data/commands/cache_text.h"
#include "data/commands/key_lines.h"
#include "test/support/catch.h"

using namespace dtrain::data;
using nlohmann::json;
using std::chrono::hours;
using std::chrono::seconds;

TEST_CASE("an error gets the line of the longest path that it begins with") {
  const json lines = {{"dataset", 1}, {"dataset.steps[1]", 4}, {"dataset.steps[1].cast", 5}, {"dataset.seed", 9}};
  CHECK(with_line("dataset.steps[1].cast.x: no such column", "job.yaml", lines) ==
        "job.yaml:5: dataset.steps[1].cast.x: no such column");
  CHECK(with_line("dataset.steps[1].castle: no", "job.yaml", lines) == "job.yaml:4: dataset.steps[1].castle: no");
  CHECK(with_line("dataset: no", "job.yaml", lines) == "job.yaml:1: dataset: no");
  CHECK(with_line("datasets are no", "job.yaml", lines) == "datasets are no");
  CHECK(with_line("/a.csv: row 3", "job.yaml", json::object()) == "/a.csv: row 3");
  CHECK(one_line("a\nb\x1b[2J") == "a?b?[2J");
}

TEST_CASE("sizes and ages are short") {
  CHECK(size_text(0) == "0 B");
  CHECK(size_text(999) == "999 B");
  CHECK(size_text(1500) == "1.5 kB");
  CHECK(size_text(123'400'000'000) == "123 GB");
  CHECK(age_text(seconds(119)) == "119 s");
  CHECK(age_text(seconds(120)) == "2 min");
  CHECK(age_text(hours(47)) == "47 h");
  CHECK(age_text(hours(48)) == "2 d");
}

TEST_CASE("entries are a table, and JSON") {
  EntryLine entry;
  entry.key = std::string(64, 'a');
  entry.meta.rows = {{"train", 90}, {"test", 10}};
  entry.meta.files = {{"train/p", 2'000'000, ""}};
  entry.meta.inputs = {{"/in/a.csv", 1, 1, ""}, {"/in/b.csv", 1, 1, ""}};
  entry.age = hours(50);
  entry.unused = hours(3);
  entry.held = true;
  CHECK(entries_text({}) == "the cache is empty\n");
  CHECK(entries_text({entry}) ==
        "key                age    unused       size          rows  inputs\n"
        "aaaaaaaaaaaa       2 d       3 h     2.0 MB           100  /in/a.csv and 1 more  in use\n"
        "1 entry, 2.0 MB\n");
  const json parsed = json::parse(entries_json({entry}));
  CHECK(parsed[0]["rows"]["train"] == 90);
  CHECK(parsed[0]["bytes"] == 2'000'000);
  CHECK(parsed[0]["in_use"] == true);
  CHECK(parsed[0]["inputs"] == json({"/in/a.csv", "/in/b.csv"}));
}

TEST_CASE("what was found or built is said") {
  CacheMeta meta;
  meta.key = "k";
  meta.rows = {{"train", 90}};
  meta.files = {{"train/p", 2000, ""}};
  meta.seconds = 1.25;
  CHECK(got_text(meta, "/c/k", true) ==
        "key     k\nbuilt   in 1.2 s\nrows    train 90\nfiles   1 file, 2.0 kB\nfolder  /c/k\n");
  CHECK(json::parse(got_json(meta, "/c/k", false))["built"] == false);
}
