#pragma once
// WorkerEnv: what the launcher told this worker in environment variables. They are torchrun's, and dtrain sets the
// same. Pure: no I/O, no torch.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "dtrain/strategy.h"
#include "dtrain/training_config.h"

namespace dtrain {

struct WorkerEnv {
  int rank = 0;                   // RANK, 0 <= rank < world_size
  int world_size = 1;             // WORLD_SIZE
  int local_rank = 0;             // LOCAL_RANK: number among the workers of this node; RANK if unset
  int local_world_size = 1;       // LOCAL_WORLD_SIZE: workers of this node; WORLD_SIZE if unset
  int group_rank = 0;             // GROUP_RANK: number of this node; 0 if unset
  std::string master_addr;        // MASTER_ADDR: host of the store; empty without a launcher
  std::uint16_t master_port = 0;  // MASTER_PORT
  bool agent_store = false;       // TORCHELASTIC_USE_AGENT_STORE=True: the launcher hosts the store; else rank 0 does
  int restart_count = 0;          // TORCHELASTIC_RESTART_COUNT: restarts of the job so far
  std::string run_id;             // TORCHELASTIC_RUN_ID: the job's id
  Strategy strategy{};            // DTRAIN_STRATEGY (strategy.h)
  int round = 0;                  // DTRAIN_ROUND: rounds of the job before this one
  int state_fd = -1;              // DTRAIN_STATE_FD: descriptor of the kept state (kept_state.h); -1: none
  int state_copy_fd = -1;         // DTRAIN_STATE_COPY_FD: the same for a copy of another rank's state
  std::string member;             // DTRAIN_MEMBER: this process among those of its rank (Session::reform()); else empty
  TrainingConfig training{};      // the rest of it; programs call Session::training_config()
  bool launched = false;          // false: no launcher, this process is the whole job
};

// The value of an environment variable, or nothing if it is unset.
using EnvLookup = std::function<std::optional<std::string>(const char* name)>;

// Read and check the worker environment. If neither RANK nor WORLD_SIZE is set, the world is this process alone. Throws
// ConfigError if a variable is missing or makes no sense.
WorkerEnv parse_worker_env(const EnvLookup& lookup);

// Looks up variables of this process. Not safe while another thread calls setenv.
EnvLookup process_env();

}  // namespace dtrain
