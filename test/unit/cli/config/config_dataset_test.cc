// What a config says of the data: handed to dtrain-data, or refused.
#include "cli/config/config_dataset.h"

#include <nlohmann/json.hpp>

#include "cli/config/config_file.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;
using Said = nlohmann::json;

namespace {

Said data_in(const std::string& text) {
  const auto read = read_config(text, "job.yaml");
  INFO((read ? "" : read.error().message));
  REQUIRE(read.ok());
  return read->data ? Said::parse(*read->data) : Said();
}

std::string refused_data(const std::string& text) {
  const auto read = read_config(text, "job.yaml");
  return read ? "fine" : read.error().message;
}

}  // namespace

TEST_CASE("a data set is handed over with the line of each key") {
  const Said data = data_in(
      "backend:\n  cache_dir: file:///cache\n  processor: {type: native, parallelism: 4, persist: no}\n"
      "dataset:\n  input: a.csv\n  seed: 0\n  steps:\n    - select: [x, y]\n    - cast:\n        x: float32\n");
  CHECK(data["file"] == "job.yaml");
  CHECK(data["cache_dir"] == "/cache");
  CHECK(data["dataset"] == Said::parse(R"({"input": ["a.csv"], "seed": 0, "parallelism": 4, "persist": false,
                                           "steps": [{"select": ["x", "y"]}, {"cast": {"x": "float32"}}]})"));
  CHECK(data["lines"]["dataset"] == 4);
  CHECK(data["lines"]["dataset.input"] == 5);
  CHECK(data["lines"]["dataset.steps[0]"] == 8);
  CHECK(data["lines"]["dataset.steps[1].cast.x"] == 10);
  CHECK(data["lines"]["backend.processor.parallelism"] == 3);
}

TEST_CASE("keys of data may have - and nothing") {
  const Said data = data_in("dataset: {input: ['1', b], row-group-rows: 10, seed: ~, format: ~}\n");
  CHECK(data["dataset"] == Said::parse(R"({"input": ["1", "b"], "row_group_rows": 10})"));
  CHECK(data["cache_dir"] == "");
  CHECK(data_in("backend: local\n").is_null());
  CHECK(data_in("dataset: {}\n").is_null());
  CHECK(
      data_in(
          "dataset: {input: [1, 2.50, yes], steps: {}, split: {}, seed: {}}\nbackend: {cache_dir: {}}\n")["dataset"] ==
      Said::parse(R"({"input": ["1", "2.50", "yes"]})"));
  const Said zero = data_in("dataset: {input: 0}\nbackend: {processor: {type: python, script: 0}}\n");
  CHECK(zero["dataset"] == Said::parse(R"({"input": ["0"], "script": "0", "processor": "python"})"));
}

TEST_CASE("without a section dataset, the keys of its cache have no effect, and a note says so") {
  const auto read = read_config("backend:\n  type: local\n  cache_dir: /cache\n", "job.yaml");
  REQUIRE(read.ok());
  REQUIRE(read->notes.size() == 1);
  CHECK_THAT(read->notes[0], Contains("no effect: job.yaml:3: backend.cache_dir is for a section `dataset`"));
  CHECK(Said::parse(*read->data)["cache_dir"] == "/cache");
}

TEST_CASE("what the processor may take counts for a recipe in a file without a section dataset") {
  const std::string text =
      "backend:\n  type: local\n  cache_dir: /cache\n"
      "  processor: {memory_limit_bytes: 1000, parallelism: 2}\n";
  const auto read = read_config(text, "job.yaml", /*for_rows=*/true);
  REQUIRE(read.ok());
  CHECK(read->notes.empty());
  CHECK(Said::parse(*read->data) == Said::parse(R"({"file": "job.yaml", "cache_dir": "/cache",
                                                    "limits": {"memory_limit_bytes": 1000, "parallelism": 2}})"));
  const auto alone = read_config("backend: {processor: {parallelism: 2}}\n", "job.yaml", /*for_rows=*/true);
  REQUIRE(alone.ok());
  CHECK(Said::parse(*alone->data)["limits"] == Said::parse(R"({"parallelism": 2})"));
  CHECK_FALSE(read_config("backend: {processor: {parallelism: 2}}\n", "job.yaml")->data);
  const auto idle = read_config("backend:\n  processor:\n    parallelism: 2\n    persist: true\n", "job.yaml", true);
  REQUIRE(idle->notes.size() == 1);
  CHECK_THAT(idle->notes[0], Contains("no effect: job.yaml:4: backend.processor.persist is for a section `dataset`"));
}

TEST_CASE("a processor with a script is the data's, with the engine of the job") {
  const auto data = data_in(
      "dataset:\n  input: a\nbackend:\n  type: ray\n"
      "  processor: {type: dask, script: p.py, num_workers: 3, parallelism: 9}\n  cache_dir: c\n");
  CHECK(data["dataset"]["processor"] == "dask");
  CHECK(data["dataset"]["script"] == "p.py");
  CHECK(data["dataset"]["num_workers"] == 3);
  CHECK(data["engine"] == "ray");
  CHECK(data["lines"]["backend.processor.script"] == 5);
  CHECK(data["lines"]["backend.cache_dir"] == 6);
  CHECK(!data_in("dataset:\n  input: a\nbackend:\n  processor: {type: native}\n")["dataset"].contains("processor"));
}

TEST_CASE("what of data cannot be is refused with its line") {
  struct Row {
    const char* text;
    const char* message;
  };
  const Row row = GENERATE(
      Row{"dataset:\n  inptu: a\n", "job.yaml:2: dataset.inptu: unknown key; did you mean input?"},
      Row{"dataset:\n  seed: 1\n", "job.yaml:1: dataset: input is missing: name the files to read"},
      Row{"dataset: a.csv\n", "job.yaml:1: dataset: expected a map of keys"},
      Row{"dataset:\n  input: {a: b}\n", "job.yaml:2: dataset.input: expected a word or a list"},
      Row{"dataset:\n  input: a\n  seed: -1\n", "job.yaml:3: dataset.seed: expected a whole number"},
      Row{"dataset:\n  input: a\n  seed: 'x'\n", "job.yaml:3: dataset.seed: expected a whole number"},
      Row{"dataset:\n  input: a\n  row_group_rows: 0\n",
          "job.yaml:3: dataset.row_group_rows: expected a whole number above 0"},
      Row{"dataset:\n  input: a\n  shuffle: perhaps\n", "job.yaml:3: dataset.shuffle: expected true or false"},
      Row{"dataset:\n  input: a\n  steps: {a: b}\n", "job.yaml:3: dataset.steps: expected a list"},
      Row{"dataset:\n  input: [a, {b: c}]\n", "job.yaml:2: dataset.input[1]: expected a word"},
      Row{"dataset:\n  input: [~]\n", "job.yaml:2: dataset.input[0]: expected a word"},
      Row{"backend:\n  processor: dask\n", "job.yaml:2: backend.processor: expected a map of keys"},
      Row{"backend:\n  processor: {type: daks}\n",
          "job.yaml:2: backend.processor.type: expected one of native, python, dask, modin, ray; did you mean dask?"},
      Row{"dataset:\n  input: a\nbackend:\n  processor: {type: dask}\n",
          "job.yaml:4: backend.processor.type: script is missing: name the Python file with process()"},
      Row{"backend:\n  processor:\n    script: p.py\n",
          "job.yaml:3: backend.processor.script: it is for a processor of type python, dask, modin or ray; this one is "
          "native"},
      Row{"backend:\n  processor:\n    type: ray\n    num_workers: 2\n",
          "job.yaml:4: backend.processor.num_workers: Ray Data counts its workers itself; remove the key"},
      Row{"backend:\n  processor: {type: native, parallelism: 0}\n",
          "job.yaml:2: backend.processor.parallelism: expected a whole number above 0"},
      Row{"backend:\n  cache_dir: [a]\n", "job.yaml:2: backend.cache_dir: expected a folder"},
      Row{"backend:\n  cache_dir: abfs://bucket/cache\n",
          "job.yaml:2: backend.cache_dir: dtrain has no cache in abfs://; name a folder that all nodes have, "
          "s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"},
      Row{"backend:\n  cache_dir: s3://key:secret@bucket/cache\n",
          "job.yaml:2: backend.cache_dir: expected s3://BUCKET/PREFIX or gs://BUCKET/PREFIX; credentials have a key of "
          "their own"},
      Row{"backend:\n  cache_dir: file://host/x\n",
          "job.yaml:2: backend.cache_dir: expected file:///, and the whole path"});
  CHECK(refused_data(row.text) == row.message);
}
