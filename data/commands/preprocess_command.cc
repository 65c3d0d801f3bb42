// Tested by test/process/data/cache_test.py.
#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/commands/cache_text.h"
#include "data/commands/data_command.h"
#include "data/commands/request.h"
#include "data/commands/wanted_inputs.h"

namespace dtrain::data {
namespace {

InputsBy inputs_by(const nlohmann::json& dataset) {
  const std::string word = dataset.value("inputs_by", std::string("mtime"));
  if (word == "mtime") return InputsBy::mtime;
  if (word == "content") return InputsBy::content;
  throw CacheError(kUsageCode, "dataset.inputs_by: expected mtime or content");
}

// What is built is what was hashed: the recipe names each file.
EntryWanted entry_wanted(const nlohmann::json& request, const Processor& processor) {
  EntryWanted wanted;
  wanted.recipe = request.at("dataset");
  const InputsBy by = inputs_by(wanted.recipe);
  wanted.recipe.erase("inputs_by");
  const bool in_store = is_in_store(wanted.recipe);
  wanted.inputs = wanted_inputs(processor, wanted.recipe, by);
  wanted.recipe["input"] = nlohmann::json::array();
  for (const CacheInput& file : wanted.inputs) wanted.recipe["input"].push_back(file.path);
  if (request.contains("threads")) wanted.recipe["threads"] = request["threads"];
  wanted.key = cache_key(wanted.recipe, wanted.inputs);
  wanted.patience.most = std::chrono::seconds(request.value("wait_s", 3600));
  wanted.build = [recipe = wanted.recipe, inputs = wanted.inputs, in_store, quiet = request.value("quiet", false),
                  &processor](const std::filesystem::path& folder) {
    RowsOfSplits rows = processor.fill(recipe, folder, quiet);
    if (in_store) check_objects_unchanged(processor, recipe, inputs);
    return rows;
  };
  wanted.say = say_unless(request);
  return wanted;
}

}  // namespace

int preprocess_command(const Processor& processor) {
  return with_request([&](const nlohmann::json& request) {
    // Listing and hashing the inputs may take minutes. Until there is something to clear away, a signal just ends this.
    const EntryWanted wanted = entry_wanted(request, processor);
    const CacheFolder cache(cache_to_name(request), MakeFolder::yes);
    const StopSignals signals;
    const EntryGot got = find_or_build(cache, wanted, signals);
    const auto text = request.value("json", false) ? got_json : got_text;
    return print_text(text(got.meta, got.folder.string(), got.built));
  });
}

}  // namespace dtrain::data
