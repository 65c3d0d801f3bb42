#include "launcher/job/worker_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "launcher/job/exit_status.h"
#include "launcher/job/text_template.h"

namespace dtrain::launcher {
namespace {

void set(Environment& env, const std::string& name, std::string value) {
  auto same = [&](const auto& entry) { return entry.first == name; };
  auto it = std::find_if(env.begin(), env.end(), same);
  if (it == env.end()) {
    env.emplace_back(name, std::move(value));
  } else {
    it->second = std::move(value);
  }
}

std::string join_signal_names(const std::vector<int>& signals) {
  std::string names;
  for (int signal : signals) names += (names.empty() ? "" : ",") + signal_name(signal);
  return names;
}

// As horovodrun names them. "Cross" counts nodes: where these differ, only some have a worker of this local rank, and a
// node does not know which.
void set_horovod(Environment& env, const JobSpec& spec, const Assignment& assignment, int rank,
                 const std::string& local_rank) {
  set(env, "HOROVOD_RANK", std::to_string(rank));
  set(env, "HOROVOD_SIZE", std::to_string(assignment.world_size));
  set(env, "HOROVOD_LOCAL_RANK", local_rank);
  set(env, "HOROVOD_LOCAL_SIZE", std::to_string(spec.nproc_per_node));
  if (!assignment.uniform) return;
  set(env, "HOROVOD_CROSS_RANK", std::to_string(assignment.node_rank));
  set(env, "HOROVOD_CROSS_SIZE", std::to_string(assignment.nnodes));
}

}  // namespace

std::string member_name(int rank, int incarnation) { return fmt::format("{}.{}", rank, incarnation); }

// torch's clients put a slash before each key, and dtrain::init() its name before its own.
std::string gone_key(int rank, int incarnation) { return "/dtrain/gone/" + member_name(rank, incarnation); }

Environment worker_env(const JobSpec& spec, const Assignment& assignment, int local_rank, const WorkerPaths& paths) {
  Environment env;
  for (const auto& [name, value] : spec.extra_env) set(env, name, value);

  const auto& devices = spec.own_devices.by_local_rank;
  const bool own = size_t(local_rank) < devices.size();
  const std::string local_rank_text = own ? "0" : std::to_string(local_rank);
  set(env, "LOCAL_RANK", local_rank_text);
  const int rank = assignment.base_rank + local_rank;
  set(env, "RANK", std::to_string(rank));
  set(env, "GROUP_RANK", std::to_string(assignment.node_rank));
  set(env, "ROLE_RANK", std::to_string(assignment.base_role_rank + local_rank));
  set(env, "ROLE_NAME", spec.role);
  set(env, "LOCAL_WORLD_SIZE", std::to_string(spec.nproc_per_node));
  set(env, "WORLD_SIZE", std::to_string(assignment.world_size));
  set(env, "GROUP_WORLD_SIZE", std::to_string(assignment.nnodes));
  set(env, "ROLE_WORLD_SIZE", std::to_string(assignment.role_world_size));
  set(env, "MASTER_ADDR", assignment.master_addr);
  set(env, "MASTER_PORT", std::to_string(assignment.master_port));
  set(env, "TORCHELASTIC_RESTART_COUNT", std::to_string(assignment.restart_count));
  set(env, "TORCHELASTIC_MAX_RESTARTS", std::to_string(spec.max_restarts));
  set(env, "TORCHELASTIC_RUN_ID", spec.run_id);
  // Compared with Python's str(True) by torch: every rank, rank 0 too, is a client of the agent's store.
  set(env, "TORCHELASTIC_USE_AGENT_STORE", "True");
  // Set even when empty: an agent started by another agent must not hand its own error file to its workers.
  set(env, "TORCHELASTIC_ERROR_FILE", paths.error_file);
  if (!spec.stop_signals.empty()) {
    set(env, "TORCHELASTIC_SIGNALS_TO_HANDLE", join_signal_names(spec.stop_signals));
  }
  set(env, "DTRAIN_JOB_ID", spec.run_id);
  set(env, "DTRAIN_ROUND", std::to_string(assignment.round));
  // Empty for the same reason.
  set(env, "DTRAIN_ROUND_DIR", paths.round);
  set(env, "DTRAIN_PROGRESS_FILE", paths.progress);
  set(env, "DTRAIN_MEMBER", spec.survivors > 0 ? member_name(rank, assignment.incarnation) : "");
  set(env, "DTRAIN_STATE_FD", spec.keep_state ? std::to_string(kStateFd) : "");
  set(env, "DTRAIN_STATE_COPY_FD", spec.copy_state ? std::to_string(kStateCopyFd) : "");
  if (!spec.strategy.empty()) set(env, "DTRAIN_STRATEGY", spec.strategy);
  if (!spec.loader.empty()) set(env, "DTRAIN_LOADER", spec.loader);
  if (spec.horovod) set_horovod(env, spec, assignment, rank, local_rank_text);
  if (!assignment.rank0_addr.empty()) set(env, "DTRAIN_RANK0_ADDR", assignment.rank0_addr);
  if (own) set(env, "CUDA_VISIBLE_DEVICES", devices[size_t(local_rank)]);
  if (own && spec.own_devices.hip) set(env, "HIP_VISIBLE_DEVICES", devices[size_t(local_rank)]);
  return env;
}

Environment worker_env_defaults() { return {{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"}}; }

std::vector<std::string> apply(const std::vector<std::string>& parent, const Environment& additions,
                               const Environment& defaults) {
  std::set<std::string, std::less<>> names;
  for (const auto& [name, value] : additions) names.insert(name);

  std::vector<std::string> result;
  result.reserve(parent.size() + additions.size() + defaults.size());
  std::set<std::string, std::less<>> inherited;
  for (const std::string& entry : parent) {
    size_t equals = entry.find('=');
    std::string name = entry.substr(0, equals);
    if (equals != std::string::npos && names.contains(name)) continue;
    if (equals != std::string::npos) inherited.insert(name);
    result.push_back(entry);
  }
  for (const auto& [name, value] : additions) result.push_back(name + "=" + value);
  for (const auto& [name, value] : defaults) {
    if (!names.contains(name) && !inherited.contains(name)) result.push_back(name + "=" + value);
  }
  return result;
}

std::string substitute_local_rank(std::string_view arg, int local_rank, DoubleDollar double_dollar) {
  return substitute(arg, {{"local_rank", std::to_string(local_rank)}}, double_dollar);
}

}  // namespace dtrain::launcher
