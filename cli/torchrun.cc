// Judges the flags that only torchrun needs.
#include "cli/torchrun.h"

#include <fmt/format.h>

namespace dtrain::cli {
namespace {

Error not_here(const std::string& why) { return {ErrorKind::usage, why + ": not in this version of dtrain"}; }

Result<void> judge(const Flag& row, const Options& options) {
  const std::string& text = options.text(row.id);
  switch (row.compat) {
    case Compat::default_only:
      if (text != row.fallback) return options.blame(row.id, not_here(fmt::format("anything but {}", row.fallback)));
      return {};
    case Compat::missing: {
      // In the environment a switch may be off, which is what this version does.
      bool off = row.is_switch() && options[row.id].origin == Origin::environment && text == "0";
      if (!off) return not_here(options[row.id].where);
      return {};
    }
    case Compat::ignored:
    case Compat::none:
      return {};
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> judge_torchrun_flags(const Options& options) {
  std::string ignored;
  for (const Flag& row : flags()) {
    if (!options.given(row.id)) continue;
    if (auto fine = judge(row, options); !fine) return fine.error();
    if (row.compat == Compat::ignored) ignored += (ignored.empty() ? "" : ", ") + options[row.id].where;
  }
  if (ignored.empty()) return std::vector<std::string>{};
  return std::vector<std::string>{"no effect on one node: " + ignored};
}

}  // namespace dtrain::cli
