// Tested by test/process/data/cache_test.py.
#include <fmt/format.h>

#include "data/cache/cache_error.h"
#include "data/cache/input_files.h"
#include "data/commands/cache_text.h"
#include "data/commands/data_command.h"
#include "data/commands/request.h"

namespace dtrain::data {
namespace {

InputsBy inputs_by(const nlohmann::json& dataset) {
  const std::string word = dataset.value("inputs_by", std::string("mtime"));
  if (word == "mtime") return InputsBy::mtime;
  if (word == "content") return InputsBy::content;
  throw CacheError(kUsageCode, "dataset.inputs_by: expected mtime or content");
}

// What is built is what was hashed: the recipe names each file.
EntryWanted entry_wanted(const nlohmann::json& request, const FillFolder& fill) {
  EntryWanted wanted;
  const nlohmann::json& dataset = request.at("dataset");
  wanted.inputs = input_files(dataset.at("input").get<std::vector<std::string>>(), inputs_by(dataset));
  wanted.recipe = dataset;
  wanted.recipe.erase("inputs_by");
  wanted.recipe["input"] = nlohmann::json::array();
  for (const InputFile& file : wanted.inputs) wanted.recipe["input"].push_back(file.path);
  if (request.contains("threads")) wanted.recipe["threads"] = request["threads"];
  wanted.key = cache_key(wanted.recipe, wanted.inputs);
  wanted.patience.most = std::chrono::seconds(request.value("wait_s", 3600));
  wanted.build = [recipe = wanted.recipe, fill](const std::filesystem::path& folder) { return fill(recipe, folder); };
  wanted.say = say_line;
  return wanted;
}

}  // namespace

int preprocess_command(const FillFolder& fill) {
  return with_request([&](const nlohmann::json& request) {
    const StopSignals signals;
    const EntryWanted wanted = entry_wanted(request, fill);
    const CacheFolder cache(cache_asked(request), MakeFolder::yes);
    const EntryGot got = find_or_build(cache, wanted, signals);
    const auto text = request.value("json", false) ? got_json : got_text;
    return print_text(text(got.meta, got.folder.string(), got.built));
  });
}

}  // namespace dtrain::data
