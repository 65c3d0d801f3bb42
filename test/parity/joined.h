#pragma once
// Joining a job of ranks that a test has forked.
#include "dtrain/dtrain.h"

namespace dtrain::test {

inline WorkerEnv by_hand(int rank, int ranks, std::uint16_t port) {
  WorkerEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = ranks;
  env.master_addr = "127.0.0.1";
  env.master_port = port;
  return env;
}

inline InitOptions quick() {
  InitOptions options;
  options.join_timeout = std::chrono::seconds{30};
  options.collective_timeout = std::chrono::seconds{30};
  return options;
}

}  // namespace dtrain::test
