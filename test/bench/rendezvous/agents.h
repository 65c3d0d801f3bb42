#pragma once
// What the processes of agents_bench share: how they are told apart, and what one that plays agents reports.
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/rounds/link_pulse.h"
#include "rendezvous/rounds/round_messages.h"

namespace dtrain::bench {

struct Plan {
  int agents = 10000;  // beside the one that hosts the job
  int processes = 2;   // that play them
  int at_once = 256;   // of the agents of one process, so many are on their way to the host at a time
  double idle = 5;     // seconds of a job that only pings
  PulseSettings pulse{};
  std::optional<JobSecret> secret{};
  std::uint16_t port = 0;
};

// What every agent says of itself; `number` 0 hosts the job.
inline NodeInfo node_info(const Plan& plan, int number) {
  NodeInfo info;
  info.job = "bench";
  info.agent_id = std::to_string(number);
  info.host = "host" + std::to_string(number);
  info.pid = 1000 + number;
  info.role = "default";
  info.workers = 8;
  info.min_nodes = plan.agents / 2;
  info.max_nodes = plan.agents + 1;
  return info;
}

// Loopback addresses to go to: each has its own ports at this end, so that these do not run out.
inline constexpr int kPerAddress = 20000;
inline std::string address_of(int agent) { return "127.0.0." + std::to_string(1 + agent / kPerAddress); }

// Of one process that plays agents, when all of its agents have been told the same; sums since the start.
struct Report {
  enum class What : int { opened, stopped, ended } what = What::opened;
  std::int64_t at = 0;              // steady clock, nanoseconds
  std::int64_t told = 0;            // messages from the host, pongs apart
  std::int64_t said = 0;            // messages to the host, pings apart
  std::int64_t attempts = 0;        // connections
  std::int64_t lost = 0;            // links, after they had joined
  double cpu = 0;                   // seconds of CPU time of the process
  std::array<char, 200> trouble{};  // the last reason why one was turned away
};

// Seconds of CPU time of this process.
inline double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

[[noreturn]] inline void die(const std::string& why) {
  std::fprintf(stderr, "agents_bench: %s\n", why.c_str());
  std::exit(1);
}
template <class T>
T must(Result<T> result) {
  if (!result) die(result.error().message);
  return std::move(result).value();
}

// Play the agents first, first + step, ... over the channel (SOCK_SEQPACKET) to the process that hosts the job: a byte
// 'j' makes them join, 'l' makes the first of them leave without a word. Returns when the other end is closed.
void play_agents(const Plan& plan, int first, int step, int channel);

}  // namespace dtrain::bench
