#pragma once
// Joining a job of ranks that a test has forked.
#include <functional>
#include <string>
#include <vector>

#include "dtrain/dtrain.h"
#include "test/unit/strategies/free_port.h"
#include "test/unit/strategies/ranks.h"

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

// What each rank's `run` says. With `ends`, sessions are shut down after it. Nothing is required of the outcomes.
inline std::vector<RankOutcome> outcomes_of(int ranks, const std::function<std::string(Session&)>& run,
                                            bool ends = true,
                                            std::chrono::seconds deadline = std::chrono::seconds{30}) {
  const std::uint16_t port = free_port();
  return run_ranks(
      ranks,
      [&](int rank) {
        torch::set_num_threads(1);
        Session session = init(by_hand(rank, ranks, port), quick());
        std::string said = run(session);
        if (ends) session.shutdown();
        return said;
      },
      deadline);
}

inline std::vector<std::string> said_by(const std::vector<RankOutcome>& outcomes) {
  std::vector<std::string> said;
  for (const RankOutcome& outcome : outcomes) said.push_back(outcome.said);
  return said;
}

// The first line of what `run` throws.
template <class Error>
std::string message_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "no error";
}

// What each rank says; all return.
inline std::vector<std::string> on_ranks(int ranks, const std::function<std::string(Session&)>& run) {
  const auto outcomes = outcomes_of(ranks, run);
  require_all_returned(outcomes);
  return said_by(outcomes);
}

}  // namespace dtrain::test
