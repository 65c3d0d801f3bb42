// Which nodes form the job: in this version, this one.
#include "cli/resolve_parts.h"
#include "cli/take.h"

namespace dtrain::cli {

Result<void> resolve_nodes(const Given& given, Plan&) {
  bool standalone = false;  // what a job on one node is anyway
  return take_switch(given.options, FlagId::standalone, standalone);
}

}  // namespace dtrain::cli
