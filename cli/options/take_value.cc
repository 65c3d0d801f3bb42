// Takes the values of flags.
// Tested by test/unit/cli/resolve/resolve_test.cc.
#include "cli/options/take_value.h"

#include <fmt/format.h>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"

namespace dtrain::cli {

Result<void> take_number(const Options& options, FlagId id, int most, int& field) {
  auto number = parse_python_int(options.text(id), 0, most);
  if (!number) return options.blame(id, number.error());
  field = *number;
  return {};
}

bool has_groups(const Options& options) {
  const auto groups = parse_python_int(options.text(FlagId::replica_groups), 0, kMostWorkersOfNode);
  return !groups || *groups > 0;
}

Result<void> take_seconds(const Options& options, FlagId id, std::chrono::milliseconds& field) {
  auto seconds = parse_seconds(options.text(id));
  if (!seconds) return options.blame(id, seconds.error());
  field = *seconds;
  return {};
}

Result<void> take_switch(const Options& options, FlagId id, bool& field) {
  auto value = options.on(id);
  if (!value) return value.error();
  field = *value;
  return {};
}

Result<void> check_folder(const Options& options, const Host& host, FlagId id) {
  std::string path = options.text(id);
  for (;;) {
    FileFacts facts = host.probe(path);
    if (facts.kind == FileFacts::Kind::folder) {
      if (facts.writable && facts.executable) return {};
      return options.blame(id, {ErrorKind::usage, fmt::format("{} is not writable", printable(path))});
    }
    if (facts.kind != FileFacts::Kind::missing)
      return options.blame(id, {ErrorKind::usage, fmt::format("{} is not a folder", printable(path))});
    std::size_t slash = path.rfind('/');
    if (path == "." || path == "/") return {};
    path = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
  }
}

}  // namespace dtrain::cli
