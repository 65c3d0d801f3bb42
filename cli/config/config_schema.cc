// Tested by test/unit/cli/config/config_schema_test.cc.
#include "cli/config/config_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/base/text.h"
#include "cli/config/config_keys.h"
#include "cli/config/config_words.h"
#include "cli/table/flags.h"

namespace dtrain::cli {
namespace {

using SchemaJson = nlohmann::ordered_json;

SchemaJson schema_list(std::string_view words, char separator) {
  SchemaJson list = SchemaJson::array();
  for (const std::string& word : split(words, separator)) list.push_back(word);
  return list;
}

SchemaJson types_of(const Flag& row) {
  if (row.is_switch()) return {"boolean", "null"};
  SchemaJson types = {"string", "number", "null"};
  if (row.choices.find("yes,no") != std::string_view::npos) types.push_back("boolean");
  switch (shape_of(row)) {
    case ConfigShape::word:
      break;
    case ConfigShape::words:
    case ConfigShape::texts:
      types.push_back("array");
      break;
    case ConfigShape::pairs:
    case ConfigShape::object:
      types.push_back("object");
      break;
  }
  return types;
}

// Some flags that have choices take numbers or files as well: the list of choices is for completion alone.
SchemaJson schema_of(const Flag& row) {
  SchemaJson schema = {{"description", row.help}, {"type", types_of(row)}};
  if (!row.choices.empty()) schema["examples"] = schema_list(row.choices, ',');
  if (!row.fallback.empty()) schema["default"] = row.fallback;
  return schema;
}

SchemaJson section_schema(std::string_view section);

SchemaJson schema_of(const ConfigKey& key) {
  SchemaJson schema;
  const std::string path =
      key.section.empty() ? std::string(key.name) : std::string(key.section) + "." + std::string(key.name);
  if (key.meaning == KeyMeaning::section || key.meaning == KeyMeaning::loader) schema = section_schema(path);
  schema["description"] = key.help;
  schema["type"] = schema_list(key.types, ' ');
  if (key.meaning == KeyMeaning::processor) schema["enum"] = schema_list(kProcessorTypes, ',');
  if (key.meaning == KeyMeaning::data && key.types.find("integer") != std::string_view::npos)
    schema["minimum"] = key.name == "seed" ? 0 : 1;
  if (key.meaning == KeyMeaning::engine) schema["enum"] = schema_list(kBackendTypes, ',');
  if (schema.contains("enum")) schema["enum"].push_back(nullptr);
  return schema;
}

SchemaJson section_schema(std::string_view section) {
  SchemaJson schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", SchemaJson::object()}};
  for (const ConfigKey& key : config_keys())
    if (key.section == section) schema["properties"][std::string(key.name)] = schema_of(key);
  return schema;
}

std::string with_underscores(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void add_flag(const Flag& row, std::string_view name, SchemaJson& schema) {
  const std::string own(name);
  schema["properties"][own] = schema_of(row);
  // Not offered, but as good.
  if (own.find('-') != std::string::npos)
    schema["patternProperties"]["^" + with_underscores(own) + "$"] = {{"$ref", "#/properties/" + own}};
}

}  // namespace

std::string config_schema() {
  SchemaJson schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "A config of dtrain run --config"}};
  schema.update(section_schema(""));
  for (const Flag& row : flags()) {
    if (!may_be_in_file(row) || find_key("", row.name) != nullptr) continue;
    add_flag(row, row.name, schema);
    if (!row.alias.empty()) add_flag(row, row.alias, schema);
  }
  for (const std::string_view name : ludwig_sections()) {
    schema["properties"][std::string(name)] = {{"description", "a section of Ludwig's, which the program reads"}};
    schema["dependencies"][std::string(name)] = {"backend"};
  }
  return schema.dump(2) + "\n";
}

}  // namespace dtrain::cli
