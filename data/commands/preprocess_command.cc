// Tested by test/process/data/cache_test.py.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/commands/cache_text.h"
#include "data/commands/data_command.h"
#include "data/commands/request.h"
#include "data/script/run_script.h"
#include "data/script/script_job.h"

namespace dtrain::data {
namespace {

InputsBy inputs_by(const nlohmann::json& dataset) {
  const std::string word = dataset.value("inputs_by", std::string("mtime"));
  if (word == "mtime") return InputsBy::mtime;
  if (word == "content") return InputsBy::content;
  throw CacheError(kUsageCode, "dataset.inputs_by: expected mtime or content");
}

void check_input_of_script(const ScriptJob& job, const EntryWanted& wanted) {
  std::vector<std::string> files;
  for (const CacheInput& input : wanted.inputs) files.push_back(input.path);
  if (const auto other = not_parquet(wanted.recipe, files))
    throw CacheError(kUsageCode,
                     fmt::format("dataset.input: {}: the processor {} reads Parquet alone; let native write "
                                 "Parquet first, in a data set of its own",
                                 *other, job.type));
}

// The script first, and then dtrain itself.
std::function<RowsOfSplits(const std::filesystem::path&)> build_by(const EntryWanted& wanted,
                                                                   const Processor& processor,
                                                                   const std::optional<ScriptJob>& job,
                                                                   const CacheInput& script) {
  std::vector<std::string> files;
  for (const CacheInput& input : wanted.inputs) files.push_back(input.path);
  return [=, recipe = wanted.recipe, fill = processor.fill](const std::filesystem::path& folder) {
    if (!job) return fill(recipe, files, folder);
    RowsOfSplits rows;
    fill_by_script(*job, files, folder, [&](const std::vector<std::string>& made, const std::filesystem::path& empty) {
      rows = fill(recipe, made, empty);
    });
    check_unchanged({script});
    return rows;
  };
}

// What is built is what was hashed: the recipe names each file.
EntryWanted entry_wanted(const nlohmann::json& request, const Processor& processor) {
  EntryWanted wanted;
  std::optional<ScriptJob> job = script_job_of(request);
  wanted.recipe = without_script(request.at("dataset"));
  const InputsBy by = inputs_by(wanted.recipe);
  wanted.recipe.erase("inputs_by");
  wanted.inputs = cache_inputs(processor.files(wanted.recipe), by);
  wanted.recipe["input"] = nlohmann::json::array();
  for (const CacheInput& file : wanted.inputs) wanted.recipe["input"].push_back(file.path);
  CacheInput script;
  if (job) {
    check_input_of_script(*job, wanted);
    script = script_file(*job);
    job->script = script.path;
    wanted.recipe["processor"] = key_of_script(*job, script.sha256);
  }
  if (request.contains("threads")) wanted.recipe["threads"] = request["threads"];
  wanted.key = cache_key(wanted.recipe, wanted.inputs);
  wanted.patience.most = std::chrono::seconds(request.value("wait_s", 3600));
  wanted.build = build_by(wanted, processor, job, script);
  wanted.say = say_line;
  return wanted;
}

}  // namespace

int preprocess_command(const Processor& processor) {
  return with_request([&](const nlohmann::json& request) {
    // Listing and hashing the inputs may take minutes. Until there is something to clear away, a signal just ends this.
    const EntryWanted wanted = entry_wanted(request, processor);
    const CacheFolder cache(cache_asked(request), MakeFolder::yes);
    const StopSignals signals;
    const EntryGot got = find_or_build(cache, wanted, signals);
    const auto text = request.value("json", false) ? got_json : got_text;
    return print_text(text(got.meta, got.folder.string(), got.built));
  });
}

}  // namespace dtrain::data
