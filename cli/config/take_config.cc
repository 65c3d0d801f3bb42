// Tested by test/unit/cli/config/take_config_test.cc.
#include "cli/config/take_config.h"

#include <fmt/format.h>

#include "cli/base/usage_error.h"
#include "cli/config/config_file.h"
#include "cli/options/options.h"

namespace dtrain::cli {
Result<std::vector<std::string>> take_config(RawOptions& raw, const Host& host) {
  std::vector<std::string> none;
  if (raw.as_torchrun) {
    if (!raw[FlagId::config]) return none;
    return usage_error(fmt::format("{} needs the name dtrain: dtrain run", raw[FlagId::config]->where));
  }
  const Options options(raw, host);
  if (!options.given(FlagId::config)) return none;
  const std::string& file = options.text(FlagId::config);
  if (file == "-") return options.blame(FlagId::config, usage_error("standard input is the workers'; name a file"));
  const auto text = host.read_text(file);
  if (!text) return options.blame(FlagId::config, usage_error(text.error().message));
  auto config = read_config(*text, file, raw.raw_input.has_value());
  if (!config) return config.error();
  auto read = read_credentials(config->credentials, file, host.read_text, host.probe);
  if (!read) return read.error();
  add_file(config->values, host, raw);
  raw.data = std::move(config->data);
  raw.credentials = std::move(read->text);
  config->notes.insert(config->notes.begin(), read->warnings.begin(), read->warnings.end());
  return std::move(config->notes);
}

}  // namespace dtrain::cli
