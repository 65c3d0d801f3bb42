#pragma once
// backend.cache_credentials: what the object store of a cache asks for, in Ludwig's shape. It is a map, or the path of
// a file with that map. Pure: the host reads the file.
#include <functional>
#include <string>
#include <vector>

#include "cli/config/config_tree.h"
#include "cli/machine/file_facts.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct CacheCredentials {
  // As one JSON object, by the names of variables: {"AWS_ACCESS_KEY_ID": ...} (data/files/store.h). A secret. Empty:
  // there are none.
  std::string text{};
  std::string file{};   // of the map, if the config only names it
  std::string where{};  // "job.yaml:3: backend.cache_credentials"; empty: the config does not have them
};

// Errors begin with the place of the value that is wrong, and show no value. `path`: of `value`.
Result<CacheCredentials> parse_credentials(const ConfigValue& value, const std::string& file, const std::string& path);

struct CredentialsRead {
  std::string text{};                   // a secret, as above
  std::vector<std::string> warnings{};  // of a file that others may read
};
using ReadText = std::function<Result<std::string>(const std::string& path)>;
// `config`: the file that has or names them.
Result<CredentialsRead> read_credentials(const CacheCredentials& credentials, const std::string& config,
                                         const ReadText& read_text, const Probe& probe);

}  // namespace dtrain::cli
