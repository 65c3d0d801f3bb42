// Tested by test/unit/cli/config/config_file_test.cc.
#include "cli/config/config_keys.h"

#include <algorithm>
#include <array>

#include "cli/base/text.h"

namespace dtrain::cli {
namespace {

constexpr ConfigKey kConfigKeys[] = {
    {"", "backend", KeyMeaning::section, FlagId::count, "Ludwig's section: where and how the job runs",
     "object string null"},
    {"", "dataset", KeyMeaning::section, FlagId::count, "what is preprocessed for the job, once", "object null"},
    {"", "num_processes", KeyMeaning::workers, FlagId::num_proc, "workers of the whole job (TorchDistributor)",
     "integer string null"},
    {"", "local_mode", KeyMeaning::local_mode, FlagId::engine, "true: on this node only (TorchDistributor)",
     "boolean null"},
    {"backend", "type", KeyMeaning::engine, FlagId::engine, "what starts the agents; horovod: as auto", "string null"},
    {"dataset", "input", KeyMeaning::data, FlagId::count, "files, folders and patterns to read", "string array"},
    {"dataset", "inputs_by", KeyMeaning::data, FlagId::count,
     "what tells that an input has changed: mtime, its size and time, or content", "string null"},
    {"dataset", "format", KeyMeaning::data, FlagId::count, "parquet, csv, json or ipc; without it, by the ending",
     "string null"},
    {"dataset", "steps", KeyMeaning::data, FlagId::count, "what is done with the rows, in this order", "array null"},
    {"dataset", "split", KeyMeaning::data, FlagId::count, "share of each part, e.g. train: 0.9", "object null"},
    {"dataset", "seed", KeyMeaning::data, FlagId::count, "of the shuffle and the split", "integer null"},
    {"dataset", "shuffle", KeyMeaning::data, FlagId::count, "whether the rows are written shuffled", "boolean null"},
    {"dataset", "row_group_rows", KeyMeaning::data, FlagId::count, "rows of a row group", "integer null"},
    {"backend", "cache_dir", KeyMeaning::cache_dir, FlagId::count,
     "folder of the cache; without it, beside the first input", "string null"},
    {"backend", "cache_credentials", KeyMeaning::credentials, FlagId::count,
     "of the cache's object store: s3: {client_kwargs: {...}}, or a file with that", "object string null"},
    {"backend", "processor", KeyMeaning::section, FlagId::count, "who preprocesses the data set", "object null"},
    {"backend.processor", "type", KeyMeaning::processor, FlagId::count,
     "native: dtrain itself; python, dask, modin and ray: a script of yours before it", "string null"},
    {"backend.processor", "script", KeyMeaning::data, FlagId::count, "Python file with a function process()",
     "string null"},
    {"backend.processor", "num_workers", KeyMeaning::data, FlagId::count,
     "workers that run the script, or share the work of native", "integer null"},
    {"backend.processor", "parallelism", KeyMeaning::data, FlagId::count, "number of partitions", "integer null"},
    {"backend.processor", "persist", KeyMeaning::data, FlagId::count,
     "whether what was read stays in memory between passes", "boolean null"},
    {"backend.processor", "memory_limit_bytes", KeyMeaning::data, FlagId::count, "most memory of the processor",
     "integer null"},
    {"backend", "trainer", KeyMeaning::section, FlagId::count, "the workers", "object null"},
    {"backend", "loader", KeyMeaning::loader, FlagId::loader, "how the program's data loader reads", "object null"},
    {"backend.loader", "window_size_bytes", KeyMeaning::loader_key, FlagId::loader,
     "bytes that are shuffled at a time; null: all", "integer string null"},
    {"backend.loader", "fully_executed", KeyMeaning::loader_key, FlagId::loader,
     "whether all is read before training begins", "boolean null"},
    {"backend.trainer", "strategy", KeyMeaning::strategy, FlagId::strategy, "how workers share a model",
     "string object null"},
    {"backend.trainer", "use_gpu", KeyMeaning::value, FlagId::use_gpu, "whether each worker needs a GPU",
     "boolean null"},
    {"backend.trainer", "num_workers", KeyMeaning::workers, FlagId::num_proc, "workers of the whole job",
     "integer string null"},
    {"backend.trainer", "resources_per_worker", KeyMeaning::value, FlagId::resources,
     "what each worker takes, e.g. CPU: 2", "object null"},
    {"backend.trainer", "logdir", KeyMeaning::value, FlagId::log_dir, "base folder of the log files", "string null"},
    {"backend.trainer", "max_retries", KeyMeaning::value, FlagId::max_restarts,
     "restarts of all workers after a failure", "integer null"},
};

constexpr std::array<std::string_view, 14> kLudwigSections = {
    "adapter",    "base_model",     "combiner",      "defaults", "generation",      "hyperopt",     "input_features",
    "model_type", "ludwig_version", "preprocessing", "prompt",   "output_features", "quantization", "trainer"};

bool same_key(std::string_view typed, std::string_view name) {
  return std::equal(typed.begin(), typed.end(), name.begin(), name.end(),
                    [](char a, char b) { return (a == '-' ? '_' : a) == b; });
}

}  // namespace

std::span<const ConfigKey> config_keys() { return kConfigKeys; }

const ConfigKey* find_key(std::string_view section, std::string_view name) {
  const auto found = std::find_if(std::begin(kConfigKeys), std::end(kConfigKeys), [&](const ConfigKey& key) {
    return key.section == section && same_key(name, key.name);
  });
  return found == std::end(kConfigKeys) ? nullptr : &*found;
}

std::span<const std::string_view> ludwig_sections() { return kLudwigSections; }

bool is_ludwig_section(std::string_view name) {
  return std::find(kLudwigSections.begin(), kLudwigSections.end(), name) != kLudwigSections.end();
}

bool may_be_in_file(const Flag& row) {
  // What is asked for once, and --insecure, which is typed or nobody has said it.
  constexpr std::array kTyped = {FlagId::config,  FlagId::backend,      FlagId::dry_run,          FlagId::help,
                                 FlagId::version, FlagId::print_config, FlagId::print_completion, FlagId::insecure};
  return std::find(kTyped.begin(), kTyped.end(), row.id) == kTyped.end();
}

std::string nearest_key(std::string_view section, std::string_view name) {
  std::vector<std::string> names;
  for (const ConfigKey& key : kConfigKeys)
    if (key.section == section) names.emplace_back(key.name);
  if (section.empty()) {
    for (const Flag& row : flags()) {
      if (!may_be_in_file(row)) continue;
      names.emplace_back(row.name);
      if (!row.alias.empty()) names.emplace_back(row.alias);
    }
  }
  const std::string near = closest(name, names);
  return near.empty() ? only_with_word(name, names) : near;
}

}  // namespace dtrain::cli
