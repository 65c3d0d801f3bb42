// The schema that editors read.
#include "cli/config/config_schema.h"

#include <nlohmann/json.hpp>

#include "cli/config/config_file.h"
#include "test/support/catch.h"
#include "test/support/golden.h"

using namespace dtrain;
using namespace dtrain::cli;

TEST_CASE("the schema of config files") { test::check_golden("cli/config-schema.json", config_schema()); }

TEST_CASE("each key of the schema is known to the reader, and the other way round") {
  const auto schema = nlohmann::json::parse(config_schema());
  const auto check = [](const nlohmann::json& part, const std::string& before, const std::string& behind) {
    for (const auto& [name, value] : part["properties"].items()) {
      INFO(before << name);
      const auto read = read_config(before + name + ": ~" + behind, "job.yaml");
      CHECK((read.ok() || read.error().message.find("may only stand beside") != std::string::npos));
    }
  };
  check(schema, "", "\n");
  const auto& backend = schema["properties"]["backend"];
  check(backend, "backend: {", "}\n");
  check(backend["properties"]["trainer"], "backend: {trainer: {", "}}\n");
  for (const Flag& row : flags()) {
    INFO(row.name);
    const bool reads = read_config(std::string(row.name) + ": ~\n", "job.yaml").ok();
    CHECK(reads == schema["properties"].contains(std::string(row.name)));
  }
}
