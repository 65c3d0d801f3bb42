// Whether this node has the data set of the job.
// Tested by test/unit/cli/resolve/resolve_dataset_test.cc.
#include <fmt/format.h>

#include <string>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/resolve/resolve_parts.h"

namespace dtrain::cli {

Result<void> resolve_dataset(const Given& given, Plan& /*plan*/) {
  const std::string path = given.host.variable("DTRAIN_DATASET");
  // What the config names is built or found after all else is known to be right.
  // On a node that an engine has not chosen, the variable may be of another place, as a container.
  if (given.raw.data || !given.host.place || !path.starts_with('/')) return {};
  const FileFacts facts = given.host.probe(path);
  if (facts.kind != FileFacts::Kind::missing && facts.readable) return {};
  return usage_error(fmt::format("DTRAIN_DATASET: {} {} on this node; choose a backend.cache_dir that all nodes have",
                                 printable(path, 400),
                                 facts.kind == FileFacts::Kind::missing ? "is not there" : "cannot be read"));
}

}  // namespace dtrain::cli
