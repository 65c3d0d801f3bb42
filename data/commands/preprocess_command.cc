// Tested by test/process/data/cache_test.py.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "data/base/store_uri.h"
#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/commands/data_command.h"
#include "data/commands/provide_entry.h"
#include "data/commands/request.h"
#include "data/commands/wanted_inputs.h"
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

// What is for a store is built in a folder of this node alone. What Ray's other nodes wrote there would be missing.
void check_cache_of_script(const ScriptJob& job, const nlohmann::json& request) {
  if ((job.on_ray || job.type == "ray") && cache_is_in_store(request))
    throw CacheError(kUsageCode,
                     "backend.cache_dir: the nodes of Ray's cluster write into it, so it must be a folder that all of "
                     "them have; not an object store");
}

// Who makes the rows of what is read, in the child.
struct Maker {
  nlohmann::json recipe;
  std::vector<std::string> files;
  std::function<RowsOfSplits(const nlohmann::json&, const std::vector<std::string>&, const std::filesystem::path&,
                             bool)>
      fill;
  std::optional<ScriptJob> job;
  CacheInput script;
  bool quiet = false;
  std::optional<WorkerJob> workers{};
  decltype(Processor::fill_together) fill_together{};

  // The script first, and then dtrain itself.
  RowsOfSplits operator()(const std::filesystem::path& folder) const {
    if (workers)
      return fill_together(recipe, files, folder, quiet, spread_of(*workers).on_a_host,
                           [this](const std::filesystem::path& made, const std::function<bool()>& must_end) {
                             run_workers(*workers, made, must_end);
                           });
    if (!job) return fill(recipe, files, folder, quiet);
    RowsOfSplits rows;
    fill_by_script(*job, files, folder, [&](const std::vector<std::string>& made, const std::filesystem::path& empty) {
      rows = fill(recipe, made, empty, quiet);
    });
    check_unchanged({script});
    return rows;
  }
};

Maker maker_of(const EntryWanted& wanted, const Processor& processor, bool quiet) {
  Maker maker{wanted.recipe, {}, processor.fill, {}, {}, quiet};
  for (const CacheInput& input : wanted.inputs) maker.files.push_back(input.path);
  return maker;
}

// What is for a store is built in a folder of this node alone, which the others do not see.
std::optional<WorkerJob> workers_of(const nlohmann::json& request, const Processor& processor) {
  std::optional<WorkerJob> workers = worker_job_of(request);
  if (!workers || !processor.fill_together) return std::nullopt;
  if (!cache_is_in_store(request)) {
    if (const std::string note = spread_of(*workers).note; !note.empty()) say_unless(request)(note);
    return workers;
  }
  say_unless(request)("the cache is in an object store, so one process on this node builds the data set");
  return std::nullopt;
}

// What is built is what was hashed: the recipe names each file.
EntryWanted entry_wanted(const nlohmann::json& request, const Processor& processor) {
  EntryWanted wanted;
  std::optional<ScriptJob> job = script_job_of(request);
  wanted.recipe = without_script(request.at("dataset"));
  const InputsBy by = inputs_by(wanted.recipe);
  wanted.recipe.erase("inputs_by");
  const bool in_store = is_in_store(wanted.recipe);
  wanted.inputs = wanted_inputs(processor, wanted.recipe, by);
  wanted.recipe["input"] = nlohmann::json::array();
  for (const CacheInput& file : wanted.inputs) wanted.recipe["input"].push_back(file.path);
  CacheInput script;
  if (job) {
    check_input_of_script(*job, wanted);
    check_cache_of_script(*job, request);
    script = script_file(*job);
    job->script = script.path;
    wanted.recipe["processor"] = key_of_script(*job, script.sha256);
  }
  if (request.contains("threads")) wanted.recipe["threads"] = request["threads"];
  wanted.key = cache_key(wanted.recipe, wanted.inputs);
  wanted.patience.most = std::chrono::seconds(request.value("wait_s", 3600));
  Maker maker = maker_of(wanted, processor, request.value("quiet", false));
  maker.job = std::move(job);
  maker.script = std::move(script);
  maker.workers = workers_of(request, processor);
  maker.fill_together = processor.fill_together;
  wanted.resumes = maker.workers.has_value();
  wanted.build = [maker = std::move(maker), inputs = wanted.inputs, in_store,
                  &processor](const std::filesystem::path& folder) {
    RowsOfSplits rows = maker(folder);
    if (in_store) check_objects_unchanged(processor, without_script(maker.recipe), inputs);
    return rows;
  };
  wanted.before_build = nodes_question(request);
  wanted.say = say_unless(request);
  return wanted;
}

}  // namespace

int preprocess_command(const Processor& processor, const OpenObjects& open) {
  return with_request([&](const nlohmann::json& request) {
    // Listing and hashing the inputs may take minutes. Until there is something to clear away, a signal just ends this.
    return provide_entry("preprocess", request, entry_wanted(request, processor), open);
  });
}

}  // namespace dtrain::data
