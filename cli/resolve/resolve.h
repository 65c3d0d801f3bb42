#pragma once
// What was typed + this machine -> the job, or one clear error. Pure: everything it knows of the machine is in Host.
#include <optional>
#include <string>
#include <vector>

#include "cli/engines/requeue.h"
#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "cli/parse/parse.h"
#include "launcher/job/job_spec.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// One flag's value and where it came from, for --dry-run and --print-config. `--nproc`, `2`, `PET_NPROC_PER_NODE`.
struct Setting {
  std::string flag;
  std::string value;
  std::string origin;  // "flag", the variable's name, "job.yaml:3: nproc", or "default"
};

// One for each flag of this version that has any, in the table's order.
std::vector<Setting> settings_of(const Options& options);

struct Plan {
  launcher::JobSpec spec;
  std::string executed_file;           // what the workers execute, as found
  std::vector<Setting> settings;       // settings_of() all that counts, an engine's word too
  std::vector<std::string> notes;      // lines to say once at start, unless --quiet
  std::vector<std::string> details;    // likewise, with --verbose
  std::vector<std::string> warnings;   // the same, --quiet or not
  std::optional<RequeuePlan> requeue;  // --requeue
  bool dry_run = false;
  // The nodes meet at this host, whose name is not known yet: when it is, resolve again.
  std::string awaited_host;
  // --print-config: only `settings` is filled, whether or not their values make sense.
  enum class PrintConfig { no, text, all, json } print_config = PrintConfig::no;
};

// Precedence: flag, DTRAIN_*, PET_*, torchrun's further variables, the config file, SLURM's variables, default. An
// empty variable counts as unset.
Result<Plan> resolve(const RawOptions& raw, const Host& host);

}  // namespace dtrain::cli
