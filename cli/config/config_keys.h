#pragma once
// The keys of a config that are no flags: Ludwig's `backend` section, and the arguments of Spark's TorchDistributor.
// The reader and the schema have them from here. Pure.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/config/config_tree.h"
#include "cli/table/flags.h"

namespace dtrain::cli {

enum class KeyMeaning {
  section,      // a map of keys
  engine,       // --engine, or horovod
  local_mode,   // true: --engine local
  strategy,     // --strategy, a word or a map
  workers,      // of the whole job
  value,        // of `flag`
  data,         // for dtrain-data (config_dataset.h)
  cache_dir,    // of the cache
  credentials,  // of its object store (config_credentials.h)
  processor,    // who preprocesses
  loader,       // --loader, a map of keys
  loader_key,   // one of those
};

struct ConfigKey {
  std::string_view section;  // "", "backend", "backend.trainer"
  std::string_view name;
  KeyMeaning meaning = KeyMeaning::value;
  FlagId flag = FlagId::count;
  std::string_view help = {};  // for editors
  // The types that it takes in JSON, separated by blanks.
  std::string_view types = {};
};
std::span<const ConfigKey> config_keys();
// Nullptr: there is none. '-' and '_' are the same.
const ConfigKey* find_key(std::string_view section, std::string_view name);

// What `backend.type` may be.
inline constexpr std::string_view kBackendTypes = "auto,local,slurm,ray,spark,mpi,ssh,horovod";

// What `backend.processor.type` may be.
inline constexpr std::string_view kProcessorTypes = "native,python,dask,modin,ray";

// Ludwig's sections beside `backend`: the program reads them.
std::span<const std::string_view> ludwig_sections();
bool is_ludwig_section(std::string_view name);

// Whether a file may give this flag a value, and why not.
bool may_be_in_file(const Flag& flag);

// "nodes-rank" -> "node-rank": the key of this section that was meant. Empty: none is near.
std::string nearest_key(std::string_view section, std::string_view name);

}  // namespace dtrain::cli
