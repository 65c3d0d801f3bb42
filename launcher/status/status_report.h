#pragma once
// What an agent says to `dtrain status`, as JSON. Pure.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/rounds/job_facts.h"
#include "rendezvous/store/store_limits.h"

namespace dtrain::launcher {

inline constexpr std::size_t kStatusBytes = std::size_t{128} << 10;  // of an answer
inline constexpr std::size_t kStatusWorkers = 512;                   // that are listed

struct WorkerNow {
  int local_rank = 0;
  int rank = 0;
  pid_t pid = 0;                    // 0: not started
  std::string state;                // one line: "running", "exit code 1"
  std::chrono::milliseconds age{};  // since it was started
  // Of one that has not ended:
  bool alive = false;
  std::chrono::milliseconds silent{};               // since it has written something, or was started
  std::optional<std::chrono::milliseconds> cpu{};   // used by its process in all
  std::optional<std::chrono::milliseconds> idle{};  // it has used no CPU, and written nothing
};

// Of one node, from its own agent.
struct AgentFacts {
  std::string job;
  std::string host;
  std::string program;
  pid_t agent = 0;
  std::chrono::milliseconds age{};  // of the agent
  std::string phase;                // of its workers: GroupState
  std::chrono::milliseconds phase_age{};
  int round = -1;
  int restarts = 0;
  int max_restarts = 0;
  int node_rank = 0;
  int nodes = 1;
  int world_size = 0;
  std::vector<WorkerNow> workers;
  std::vector<Decision> decisions;  // of this agent
  std::uint64_t memory = 0;         // bytes of the agent that are resident; 0: unknown
  std::optional<StoreStats> store;  // that it serves its workers
  // Several nodes: where their rounds are hosted, what it waits for, and what the host of the rounds said; nothing: it
  // has not answered.
  bool several = false;
  std::string endpoint;
  bool hosts = false;  // this agent itself
  std::string waiting;
  std::optional<JobFacts> rounds;
};

std::string status_json(const AgentFacts& facts);

// Of a standing server (job_service.h).
struct ServerFacts {
  std::string host;
  pid_t pid = 0;
  std::string where;                // it listens
  std::chrono::milliseconds age{};  // of the server
  bool ending = false;              // it takes no new jobs
  std::size_t job_count = 0;
  std::vector<std::pair<std::string, JobFacts>> jobs;  // the first of them
};

// All jobs that there is room for in an answer, the first of them with their nodes and decisions.
std::string status_json(const ServerFacts& facts);

}  // namespace dtrain::launcher
