// Maps of a config as JSON: what --strategy gets.
#include "cli/config/config_json.h"

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;

TEST_CASE("words of a config have the types that YAML 1.1 gives them") {
  struct Row {
    const char *yaml, *json;
  };
  const Row row = GENERATE(Row{"true", "true"}, Row{"Off", "false"}, Row{"'true'", "\"true\""}, Row{"~", "null"},
                           Row{"12", "12"}, Row{"-3", "-3"}, Row{"+3", "3"}, Row{".5", "0.5"}, Row{"-.5", "-0.5"},
                           Row{"2.", "2.0"}, Row{"1e-4", "0.0001"}, Row{"\"1\"", "\"1\""}, Row{"1e", "\"1e\""},
                           Row{"007", "\"007\""}, Row{"'-'", "\"-\""}, Row{".", "\".\""}, Row{".inf", "\".inf\""},
                           Row{"ddp", "\"ddp\""}, Row{"{type: fsdp, prefetch: 2}", R"({"type":"fsdp","prefetch":2})"},
                           Row{"[1, a, [], {}]", R"([1,"a",[],{}])"});
  const auto tree = read_config_tree(row.yaml, "job.yaml");
  REQUIRE(tree.ok());
  INFO(row.yaml);
  CHECK(json_text(*tree) == row.json);
}
