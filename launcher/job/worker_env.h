#pragma once
// The environment and arguments of a worker: torchrun's contract plus DTRAIN_* (docs/worker-contract.md).
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/job/job_spec.h"
#include "launcher/job/text_template.h"

namespace dtrain::launcher {

// The descriptor of the memory that a worker keeps its state in, with JobSpec::keep_state. It is above what shells and
// other programs between dtrain and the worker use for themselves.
inline constexpr int kStateFd = 100;
// The same, with JobSpec::copy_state, for a copy of the state of a worker on another node.
inline constexpr int kStateCopyFd = 101;

// What a completed round says about this node.
struct Assignment {
  int round = 0;          // counts every round of the job, from 0
  int restart_count = 0;  // restarts after a failure, as counted against max_restarts
  int node_rank = 0;
  int nnodes = 1;
  int base_rank = 0;  // the rank of local rank 0
  int world_size = 1;
  int base_role_rank = 0;  // the same within the role
  int role_world_size = 1;
  std::string master_addr;  // where the agent's store listens
  uint16_t master_port = 0;
  bool uniform = true;       // all nodes have the same number of workers
  std::string rank0_addr{};  // across hosts: the host of rank 0, as the user named it; else empty
  int incarnation = 0;       // of the one worker that is started, if it takes the place of another; else 0
};

// A process in the place of a rank, with JobSpec::survivors: "3.0" is the one that began with the round, "3.1" has
// taken its place. DTRAIN_MEMBER, and how the ranks that go on name each other.
std::string member_name(int rank, int incarnation);
// The key of the store that says of such a process that it has ended, as the workers' clients name it; and its value.
std::string gone_key(int rank, int incarnation);
inline constexpr const char *kGoneWell = "well", *kGoneFailed = "failed";

// The files of one worker; empty where there is none.
struct WorkerPaths {
  std::string error_file;
  std::string round{};     // the folder of this node's files of the round
  std::string progress{};  // of rank 0, where somebody reads it
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// The variables that this worker gets on top of the agent's environment: spec.extra_env first, then the contract, which
// wins over it. Each name occurs once.
Environment worker_env(const JobSpec& spec, const Assignment& assignment, int local_rank, const WorkerPaths& paths);

// The variables that a worker gets only where neither the parent nor worker_env() sets them.
Environment worker_env_defaults();

// Build a worker's whole environment as "NAME=value" strings: `parent` in its order without the replaced names, then
// `additions`, then those of `defaults` that are still unset. Entries of `parent` without '=' are kept.
std::vector<std::string> apply(const std::vector<std::string>& parent, const Environment& additions,
                               const Environment& defaults = worker_env_defaults());

// Put the local rank into one worker argument: `$local_rank` and `${local_rank}` (text_template.h).
std::string substitute_local_rank(std::string_view arg, int local_rank,
                                  DoubleDollar double_dollar = DoubleDollar::keep);

}  // namespace dtrain::launcher
