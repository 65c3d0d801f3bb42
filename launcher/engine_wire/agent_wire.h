#pragma once
// What an engine and the agent that it has started on a node (`dtrain agent`) say to each other, on the agent's
// standard input and output, a line each. Pure.
//
//   agent   dtrain-agent {"protocol":1, ...}   an AgentCard; what a login shell prints before it does not count
//   engine  {"words":[...], ...}               an AgentTask
//   (both   the files that the agent lacks: ship_wire.h)
//   agent   dtrain-agent {"ready":true}        or {"error":"why not","kind":"usage"}: nothing has been started
//   engine  go                                 once all agents are ready
//   engine  15                                 any time after that: a signal, as if the agent had got it
//
// From "go" on, the agent's output is that of the job. The end of its input ends the job, as SIGTERM does.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/engine_wire/ship_wire.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

inline constexpr int kAgentProtocol = 1;
inline constexpr std::string_view kAgentGo = "go";
// Of a line: the kernel's bound on arguments and environment is lower.
inline constexpr std::size_t kLongestAgentLine = std::size_t{4} << 20;

// What an agent says of its host.
struct AgentCard {
  std::string version{};                 // "dtrain 0.1.0"
  std::string host{};                    // as the kernel calls it
  std::vector<std::string> addresses{};  // numeric, not the loopback's
  bool operator==(const AgentCard&) const = default;
};

// Where a node is in the job, in the syntax of the flags.
struct AgentPlace {
  std::string engine{};     // that says so: "ssh"
  std::string nnodes{};     // "4", or "2:4"
  std::string node_rank{};  // empty: the nodes are numbered as they come
  std::string endpoint{};   // empty: there is one node
  std::string run_id{};     // may be empty
  std::string nproc{};      // empty: nobody has said
  std::string conf{};       // --rdzv-conf, unless the user has typed one
  bool operator==(const AgentPlace&) const = default;
};

struct AgentTask {
  std::string called{};                      // the name that dtrain was called by: "dtrain", "torchrun", "launch"
  std::vector<std::string> words{};          // after it
  std::map<std::string, std::string> env{};  // all of it; with the job's token
  std::string folder{};                      // to work in
  AgentPlace place{};
  std::vector<ShipFile> ship{};  // files that the folder must have
  // Where flags among the words come from, if not from the command line: "nproc" from "job.yaml:3: nproc". For errors.
  std::map<std::string, std::string> origins{};
  // A folder that another host has made for this job. If it is not empty, the agent only says whether this host sees
  // the folder too: it carries out nothing else of the task.
  std::string looks_for{};
  bool operator==(const AgentTask&) const = default;
};

// Lines without their end. A task whose texts are not UTF-8 is an error that names the text.
std::string card_line(const AgentCard& card);
Result<std::string> task_line(const AgentTask& task);
std::string verdict_line(const Result<void>& verdict);

// Whether an agent has said this line, and not the shell that has started it.
bool is_of_agent(std::string_view line);

Result<AgentCard> parse_agent_card(std::string_view line);
Result<AgentTask> parse_agent_task(std::string_view line);
// The agent's own error, or one about the line.
Result<void> parse_agent_verdict(std::string_view line);

}  // namespace dtrain::launcher
