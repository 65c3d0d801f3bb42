#pragma once
// What a config says of the data: its section `dataset`, and cache_dir and processor of `backend`.
// Their values are for dtrain-data, which knows Arrow. Pure.
#include <memory>
#include <optional>
#include <string>

#include "cli/config/config_keys.h"
#include "cli/config/config_tree.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Where a cache is: a folder, by a path or a URL of file://, or an object store (s3://BUCKET/PREFIX, gs://...). Error:
// other URLs.
Result<std::string> cache_place(const std::string& text);
bool is_in_store(const std::string& place);

// Each take_...() has an error that begins with the value's place, and shows no value.
class ConfigDataset {
 public:
  explicit ConfigDataset(std::string file);
  ~ConfigDataset();
  ConfigDataset(const ConfigDataset&) = delete;
  ConfigDataset& operator=(const ConfigDataset&) = delete;

  // `path`: of the value, as in "dataset.seed".
  Result<void> take_key(const ConfigKey& key, const ConfigValue& value, const std::string& path);
  Result<void> take_section(const ConfigValue& value);  // dataset itself
  Result<void> take_cache_dir(const ConfigValue& value, const std::string& path);
  Result<void> take_processor(const ConfigValue& value, const std::string& path);  // its type

  // data/commands/data_command.h says what is in it. Without a section `dataset` it has only what `dtrain cache`
  // needs; nothing: the file says nothing of data. `engine`: of the file; empty: not said. `for_rows`: a recipe makes
  // rows for this job (RawInput), which takes what the processor may take ("limits") without that section, too.
  Result<std::optional<std::string>> request(const std::string& engine, bool for_rows) const;
  bool is_in_store() const;  // whether the cache is in an object store
  // Where a key stands that has no effect. Empty: none.
  std::string idle_key(bool for_rows) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace dtrain::cli
