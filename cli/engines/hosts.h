#pragma once
// --hosts and --hostfile: the job's agents are started on these hosts, by ssh. Pure but for the file.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/machine/host.h"
#include "cli/options/options.h"
#include "launcher/engines/placement.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Nothing: no hosts are named, or this process is the agent on one of them. The task has no environment yet.
Result<std::optional<launcher::PlacementRequest>> hosts_that_count(const RawOptions& raw, const Options& options,
                                                                   const Host& host);

// Error: workers on other hosts are to read something. `with`: what puts them there.
Result<void> check_stdin(const Options& options, std::string_view with);
// The task of each agent, but its environment and its place.
launcher::AgentTask task_to_send(const RawOptions& raw, const Options& options, const Host& host,
                                 const std::string& engine);
// What of the environment goes to other hosts: all but what belongs to this host or to a login, and what has been said
// by now. `token`: of the job; empty: it needs none.
std::map<std::string, std::string> environment_to_send(const Host& host, const std::string& token);
// The token of a job over these hosts; empty: there is one host, or the user has named another credential.
Result<std::string> token_to_send(const Options& options, const Host& host, std::size_t hosts);

// The command that starts `dtrain agent` on a host. `own`: this program's file. `here`: names of this host.
std::vector<std::string> agent_command_on(const std::string& host, const std::string& ssh, const std::string& own,
                                          const std::vector<std::string>& here);

}  // namespace dtrain::cli
