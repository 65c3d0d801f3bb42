#pragma once
// What a config file says of the job. Pure.
#include <string>
#include <vector>

#include "cli/config/config_credentials.h"
#include "cli/options/options.h"
#include "cli/parse/parse.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct ConfigFile {
  FileValues values{};               // of flags
  std::vector<std::string> notes{};  // lines to say once
  // For dtrain-data, as JSON (data/commands/data_command.h). Nothing: the file says nothing of data.
  std::optional<std::string> data{};
  CacheCredentials credentials{};  // of the data's cache
};

// `text`: what the file has. `for_rows`: of a job for which a recipe makes rows (RawInput). Errors are usage errors of
// one line, "job.yaml:3: backend.trainer.typo: ...".
Result<ConfigFile> read_config(const std::string& text, const std::string& file, bool for_rows = false);

}  // namespace dtrain::cli
