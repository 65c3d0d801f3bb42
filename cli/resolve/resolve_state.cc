// The state that the launcher keeps for the workers, and its files.
// Tested by test/unit/cli/resolve/resolve_state_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/engines/requeue.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"
#include "launcher/job/state_job_name.h"

namespace dtrain::cli {
namespace {

using launcher::StateFiles;

constexpr auto kSlurmAnswers = std::chrono::seconds(5);  // while the other nodes wait

std::optional<int> whole_number(const std::string& text) {
  const auto number = parse_number(text, 0, std::numeric_limits<int>::max());
  return number ? std::optional(*number) : std::nullopt;
}

// Nothing: not in a job of SLURM's.
std::string slurm_job(const Given& given) {
  const std::string job = given.host.variable("SLURM_JOB_ID");
  return whole_number(job) ? job : "";
}

// What the user calls this job; engines give each run another name.
std::string name_by_user(const Given& given) {
  const RawValue& name = given.options[FlagId::run_id];
  return name.origin == Origin::flag || name.origin == Origin::file || name.where.ends_with("_RDZV_ID") ? name.text
                                                                                                        : "";
}

// Each element of an array has a number of its own. Several tasks of a step may be jobs of one node each.
std::string key_by_slurm(const Given& given, const Plan& plan, const std::string& job) {
  const Host& host = given.host;
  const std::string name = name_by_user(given), step = host.variable("SLURM_STEP_ID");
  std::string key = host.variable("SLURM_CLUSTER_NAME") + "." + job;
  if (!name.empty() || whole_number(step)) key += "." + (name.empty() ? step : name);
  if (whole_number(step) && !plan.spec.nodes.several()) key += "." + host.variable("SLURM_PROCID");
  return key;
}

Result<void> name_node(const Given& given, const Plan& plan, const std::string& job, StateFiles& files) {
  const auto& nodes = plan.spec.nodes;
  files.nodes = nodes.max;
  if (!nodes.several()) return {};
  const auto by_slurm = job.empty() ? std::nullopt : whole_number(given.host.variable("SLURM_NODEID"));
  files.node = nodes.node_rank >= 0 ? nodes.node_rank : by_slurm.value_or(-1);
  if (files.node >= 0) return {};
  return given.options.blame(FlagId::state_dir,
                             usage_error("nodes that come in any order do not know their own files; number them "
                                         "(--node-rank)"));
}

Result<std::string> folder_for_state(const Given& given) {
  const Host& host = given.host;
  std::string path = given.options.text(FlagId::state_dir);
  if (!path.starts_with('/')) path = host.folder() + "/" + path;
  const FileFacts facts = host.probe(path);
  if (facts.kind != FileFacts::Kind::folder)
    return given.options.blame(FlagId::state_dir,
                               usage_error(fmt::format("there is no folder {}; make it, on a file system of all nodes",
                                                       printable(path, 400))));
  if (!facts.writable || !facts.executable)
    return given.options.blame(FlagId::state_dir, usage_error(printable(path, 400) + " is not writable"));
  return path;
}

Result<void> state_files(const Given& given, Plan& plan) {
  if (given.options.text(FlagId::state_dir).empty()) return {};
  const Host& host = given.host;
  const auto wrong = [&](const std::string& why) { return given.options.blame(FlagId::state_dir, usage_error(why)); };
  if (!host.variable("TORCHELASTIC_RUN_ID").empty())
    return wrong("a job in a worker of another job cannot have it; unset DTRAIN_STATE_DIR there");
  StateFiles files;
  auto folder = folder_for_state(given);
  if (!folder) return folder.error();
  files.folder = *folder;
  const std::string job = slurm_job(given);
  if (auto named = name_node(given, plan, job, files); !named) return named;
  files.key = job.empty() ? name_by_user(given) : key_by_slurm(given, plan, job);
  if (files.key.empty()) return wrong("the job's next run must know it: name it (--rdzv-id)");
  const std::size_t length = launcher::state_job_name(files.key).size();
  if (length > launcher::kLongestStateJob)
    return wrong(
        fmt::format("the name of the job takes {} bytes in names of files, and {} at most are possible; give "
                    "it a shorter one (--rdzv-id)",
                    length, launcher::kLongestStateJob));
  files.after_failure = job.empty();
  if (!job.empty())
    files.next_run = [scontrol = host.scontrol, job,
                      restarts = whole_number(host.variable("SLURM_RESTART_COUNT")).value_or(0)] {
      const auto says = scontrol({"show", "job", job, "--oneliner"}, kSlurmAnswers);
      return says ? next_run(*says, restarts) : launcher::NextRun::may_come;
    };
  plan.spec.state_files = std::move(files);
  plan.spec.keep_state = true;
  return {};
}

}  // namespace

Result<void> resolve_state(const Given& given, Plan& plan) {
  if (auto done = take_switch(given.options, FlagId::keep_state, plan.spec.keep_state); !done) return done;
  if (auto done = take_switch(given.options, FlagId::copy_state, plan.spec.copy_state); !done) return done;
  if (plan.spec.copy_state && !plan.spec.nodes.several())
    return given.options.blame(FlagId::copy_state,
                               usage_error("copies need another node, and the job has one (--nnodes)"));
  plan.spec.keep_state = plan.spec.keep_state || plan.spec.copy_state;
  if (auto done = state_files(given, plan); !done) return done;
  const bool one_run = plan.spec.max_restarts == 0 && !plan.spec.nodes.several() && !plan.spec.state_files;
  if (plan.spec.keep_state && one_run)
    plan.notes.emplace_back("--keep-state has no use without --max-restarts: there is no second round");
  return {};
}

}  // namespace dtrain::cli
