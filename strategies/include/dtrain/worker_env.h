#pragma once
// What the launcher told this worker: torchrun's environment variables, which dtrain sets too. Pure: no I/O, no torch.
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace dtrain {

// The environment or a setting makes no sense. what() is one line that says which and what to do.
struct ConfigError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

// How the replicas share the work.
enum class StrategyKind { ddp };

struct WorkerEnv {
  int rank = 0;                   // RANK, 0 <= rank < world_size
  int world_size = 1;             // WORLD_SIZE
  int local_rank = 0;             // LOCAL_RANK: among the workers of this node; RANK where unset
  int local_world_size = 1;       // LOCAL_WORLD_SIZE; WORLD_SIZE where unset
  std::string master_addr;        // MASTER_ADDR: host of the store; empty without a launcher
  std::uint16_t master_port = 0;  // MASTER_PORT
  bool agent_store = false;       // TORCHELASTIC_USE_AGENT_STORE=True: the store is up already, no worker hosts it
  int restart_count = 0;          // TORCHELASTIC_RESTART_COUNT
  std::string run_id;             // TORCHELASTIC_RUN_ID
  StrategyKind strategy = StrategyKind::ddp;  // DTRAIN_STRATEGY: {"type": "ddp"} or "ddp"
  bool launched = false;                      // false: no launcher, this process is the whole job
};

// Value of an environment variable, or nothing where it is unset.
using EnvLookup = std::function<std::optional<std::string>(const char* name)>;

// Read and check the worker environment. With neither RANK nor WORLD_SIZE set the world is this process alone.
// Throws ConfigError.
WorkerEnv parse_worker_env(const EnvLookup& lookup);

// The lookup of this process's environment. Not safe beside a thread that calls setenv.
EnvLookup process_env();

}  // namespace dtrain
