// From JSON to a Recipe. Each key has one place here that reads it; a key that nobody reads is an error.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "data/recipe/limits.h"
#include "data/recipe/recipe.h"

namespace dtrain::data {
namespace {

using Json = nlohmann::json;

constexpr double kShareSlack = 1e-9;

// A part of the recipe, and how one gets there.
struct Place {
  const Json& json;
  std::string path;

  Place at(const std::string& key) const { return {json.at(key), path + "." + key}; }
  Place at(std::size_t index) const { return {json.at(index), fmt::format("{}[{}]", path, index)}; }
  [[noreturn]] void refuse(const std::string& text) const { throw RecipeError(path, text); }
  [[noreturn]] void refuse_type(const char* wanted) const {
    refuse(fmt::format("this is {}, and must be {}", json.is_null() ? "null" : json.type_name(), wanted));
  }
};

std::string text_of(const Place& place) {
  if (!place.json.is_string()) place.refuse_type("a text");
  if (place.json.get_ref<const std::string&>().empty()) place.refuse("the text is empty");
  return place.json;
}

bool bool_of(const Place& place) {
  if (!place.json.is_boolean()) place.refuse_type("true or false");
  return place.json;
}

std::int64_t whole_of(const Place& place, std::int64_t least) {
  if (!place.json.is_number_integer()) place.refuse_type("a whole number");
  const bool huge = place.json.is_number_unsigned() && place.json.get<std::uint64_t>() > INT64_MAX;
  if (huge || place.json.get<std::int64_t>() < least)
    place.refuse(fmt::format("{} is no number from {} to {}", place.json.dump(), least, INT64_MAX));
  return place.json;
}

const Json& map_of(const Place& place, const char* wanted) {
  if (!place.json.is_object()) place.refuse_type(wanted);
  if (place.json.empty()) place.refuse("nothing is in it");
  return place.json;
}

std::vector<std::string> names_of(const Place& place) {
  if (!place.json.is_array()) place.refuse_type("a list of column names");
  if (place.json.empty()) place.refuse("the list is empty");
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < place.json.size(); ++i) {
    names.push_back(text_of(place.at(i)));
    if (!seen.insert(names.back()).second) place.at(i).refuse(fmt::format("'{}' is in the list twice", names.back()));
  }
  return names;
}

template <typename Choice>
Choice choice_of(const Place& place, const std::map<std::string, Choice>& choices) {
  const std::string word = place.json.is_string() ? place.json.get<std::string>() : place.json.dump();
  const auto found = choices.find(word);
  if (place.json.is_string() && found != choices.end()) return found->second;
  std::string known;
  for (const auto& [name, choice] : choices) known += (known.empty() ? "" : ", ") + name;
  place.refuse(fmt::format("'{}' is none of {}", word, known));
}

void know_keys(const Place& place, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : place.json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    place.at(key).refuse(fmt::format("no such key; there are {}", fmt::join(known, ", ")));
  }
}

Value value_of(const Place& place) {
  const Json& json = place.json;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number_integer()) return whole_of(place, INT64_MIN);
  place.refuse_type("a number, a text, true or false");
}

Rename rename_of(const Place& place) {
  Rename step;
  for (const auto& [old, name] : map_of(place, "a map of old names to new ones").items())
    step.names.emplace_back(old, text_of(place.at(old)));
  return step;
}

Cast cast_of(const Place& place) {
  Cast step;
  for (const auto& [column, name] : map_of(place, "a map of columns to types").items()) {
    const auto type = column_type_of(text_of(place.at(column)));
    if (!type) {
      place.at(column).refuse(
          fmt::format("'{}' is no type; there are {}", name.get<std::string>(), column_type_names()));
    }
    step.types.emplace_back(column, *type);
  }
  return step;
}

Condition condition_of(const Place& place) {
  map_of(place, "a map with column, op and value");
  know_keys(place, {"column", "op", "value"});
  for (const char* key : {"column", "op", "value"})
    if (!place.json.contains(key)) place.refuse(fmt::format("'{}' is missing", key));
  const Comparison op = choice_of<Comparison>(place.at("op"), {{"==", Comparison::equal},
                                                               {"!=", Comparison::not_equal},
                                                               {"<", Comparison::less},
                                                               {"<=", Comparison::less_equal},
                                                               {">", Comparison::greater},
                                                               {">=", Comparison::greater_equal}});
  return {text_of(place.at("column")), op, value_of(place.at("value"))};
}

Filter filter_of(const Place& place) {
  if (!place.json.is_array()) return {{condition_of(place)}};
  if (place.json.empty()) place.refuse("the list is empty");
  Filter step;
  for (std::size_t i = 0; i < place.json.size(); ++i) step.conditions.push_back(condition_of(place.at(i)));
  return step;
}

Fill fill_of(const Place& place) {
  Fill step;
  for (const auto& [column, json] : map_of(place, "a map of columns to values").items()) {
    if (json == "mean" || json == "mode")
      step.columns.emplace_back(column, json == "mean" ? FillWith::mean : FillWith::mode);
    else
      step.columns.emplace_back(column, value_of(place.at(column)));
  }
  return step;
}

Normalize normalize_of(const Place& place) {
  Normalize step;
  for (const auto& [column, json] : map_of(place, "a map of columns to zscore or minmax").items())
    step.columns.emplace_back(
        column, choice_of<Scale>(place.at(column), {{"zscore", Scale::zscore}, {"minmax", Scale::minmax}}));
  return step;
}

Vocabulary vocabulary_of(const Place& place) {
  constexpr std::int64_t kIndexMax = INT32_MAX - 1, kOneHotMax = 65536;
  Vocabulary step;
  for (const auto& [column, json] : map_of(place, "a map of columns to size and output").items()) {
    const Place one = place.at(column);
    map_of(one, "a map with size and output");
    know_keys(one, {"size", "output"});
    VocabularyOf of;
    if (json.contains("output")) of.one_hot = choice_of<bool>(one.at("output"), {{"index", false}, {"one_hot", true}});
    if (!json.contains("size")) one.refuse("'size' is missing: how many values get a number");
    of.size = whole_of(one.at("size"), 1);
    const std::int64_t most = of.one_hot ? kOneHotMax : kIndexMax;
    if (of.size > most) one.at("size").refuse(fmt::format("{} is more than {}", of.size, most));
    step.columns.emplace_back(column, of);
  }
  return step;
}

Step step_of(const Place& place) {
  static const std::map<std::string, Step (*)(const Place&)> kSteps = {
      {"select", [](const Place& at) -> Step { return Select{names_of(at)}; }},
      {"rename", [](const Place& at) -> Step { return rename_of(at); }},
      {"cast", [](const Place& at) -> Step { return cast_of(at); }},
      {"filter", [](const Place& at) -> Step { return filter_of(at); }},
      {"fill", [](const Place& at) -> Step { return fill_of(at); }},
      {"normalize", [](const Place& at) -> Step { return normalize_of(at); }},
      {"vocabulary", [](const Place& at) -> Step { return vocabulary_of(at); }},
      {"dedup", [](const Place& at) -> Step { return Dedup{names_of(at)}; }},
  };
  if (map_of(place, "a map with one key, the step's name").size() != 1)
    place.refuse("a step has one key, its name; write several steps");
  const std::string& name = place.json.begin().key();
  const auto found = kSteps.find(name);
  if (found != kSteps.end()) return found->second(place.at(name));
  std::string known;
  for (const auto& [step, parse] : kSteps) known += (known.empty() ? "" : ", ") + step;
  place.at(name).refuse("no such step; there are " + known);
}

// A part's name becomes that of a folder.
bool names_folder(const std::string& name) {
  if (name.empty() || name == "tmp" || name == "used") return false;  // a cache has files and folders of its own
  return std::all_of(name.begin(), name.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
  });
}

Split split_of(const Place& place) {
  Split split;
  double sum = 0;
  for (const auto& [key, json] : map_of(place, "a map of parts to shares").items()) {
    const Place one = place.at(key);
    if (key == "by") {
      if (!json.is_null()) split.by = text_of(one);
      continue;
    }
    if (!names_folder(key)) one.refuse("a part's name has small letters, digits and _, and is not tmp or used");
    if (!json.is_number()) one.refuse_type("a share of the rows, a number");
    const double share = json;
    if (!(share > 0 && share <= 1)) one.refuse(fmt::format("{} is no share above 0 and up to 1", json.dump()));
    split.shares.emplace_back(key, share);
    sum += share;
  }
  if (!(std::abs(sum - 1) < kShareSlack)) place.refuse(fmt::format("the shares add up to {}, and must to 1", sum));
  return split;
}

std::optional<std::int64_t> positive_or_null(const Json& json, const std::string& path, std::int64_t least) {
  if (json.is_null()) return std::nullopt;
  return whole_of({json, path}, least);
}

// What `backend.processor` and the command line say is in the recipe, too; `key` as the user knows it.
void take(Recipe& recipe, const std::string& key, const Place& place) {
  constexpr std::int64_t kThreadsMax = 4096;
  if (key == "input") {
    recipe.input = place.json.is_string() ? std::vector<std::string>{text_of(place)} : names_of(place);
  } else if (key == "format") {
    if (!place.json.is_null())
      recipe.format = choice_of<InputFormat>(place, {{"parquet", InputFormat::parquet},
                                                     {"csv", InputFormat::csv},
                                                     {"json", InputFormat::json},
                                                     {"ipc", InputFormat::ipc}});
  } else if (key == "steps") {
    if (!place.json.is_array()) place.refuse_type("a list of steps");
    for (std::size_t i = 0; i < place.json.size(); ++i) recipe.steps.push_back(step_of(place.at(i)));
  } else if (key == "split") {
    if (!place.json.is_null()) recipe.split = split_of(place);
  } else if (key == "seed") {
    recipe.seed = static_cast<std::uint64_t>(whole_of(place, 0));
  } else if (key == "shuffle") {
    recipe.shuffle = bool_of(place);
  } else if (key == "row_group_rows") {
    if (!place.json.is_null()) recipe.row_group_rows = whole_of(place, 1);
  } else if (key == "parallelism") {
    recipe.parallelism = positive_or_null(place.json, "backend.processor.parallelism", 1);
  } else if (key == "persist") {
    recipe.persist = bool_of({place.json, "backend.processor.persist"});
  } else if (key == "memory_limit_bytes") {
    recipe.memory_limit_bytes = positive_or_null(place.json, "backend.processor.memory_limit_bytes", kLeastMemory);
  } else if (key == "threads") {
    recipe.threads = positive_or_null(place.json, "threads", 1);
    if (recipe.threads > kThreadsMax) throw RecipeError("threads", fmt::format("at most {} threads", kThreadsMax));
  }
}

}  // namespace

Recipe parse_recipe(const Json& text) {
  const Place all{text, "dataset"};
  map_of(all, "a map");
  know_keys(all, {"input", "format", "steps", "split", "seed", "shuffle", "row_group_rows", "parallelism", "persist",
                  "memory_limit_bytes", "threads"});
  Recipe recipe;
  recipe.split.shares = {{"train", 1.0}};
  recipe.text = text;
  for (const auto& [key, json] : text.items()) take(recipe, key, all.at(key));
  if (recipe.input.empty()) all.refuse("'input' is missing: the files to read");
  return recipe;
}

std::vector<std::pair<std::string, ColumnType>> types_to_read(const Recipe& recipe) {
  std::map<std::string, std::string> now;  // a renamed column's name to that in the files
  std::set<std::string> touched;           // by the names in the files
  std::vector<std::pair<std::string, ColumnType>> types;
  const auto in_files = [&](const std::string& name) { return now.contains(name) ? now.at(name) : name; };
  for (const Step& step : recipe.steps) {
    if (const auto* rename = std::get_if<Rename>(&step)) {
      std::map<std::string, std::string> next = now;
      for (const auto& [old, name] : rename->names) next.erase(old);
      for (const auto& [old, name] : rename->names) next[name] = in_files(old);
      now = std::move(next);
    } else if (const auto* cast = std::get_if<Cast>(&step)) {
      for (const auto& [column, type] : cast->types)
        if (touched.insert(in_files(column)).second) types.emplace_back(in_files(column), type);
    } else if (!std::holds_alternative<Select>(step)) {
      // Which rows a cast sees, and which values, is told by the steps before it: from the first of these on none
      // counts.
      break;
    }
  }
  return types;
}

}  // namespace dtrain::data
