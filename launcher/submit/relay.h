#pragma once
// Beside an agent that an engine has started on a node: carries the agent's input and output to and from whoever has
// submitted the job (rendezvous/agent_link/relay_frames.h).
#include <string>
#include <vector>

#include "launcher/engine_wire/shim_wire.h"
#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// Starts `command` and returns once it has ended, with its exit code, or 128 and the signal that has killed it. When
// the link breaks, or standard input ends, which means that the engine has gone, the command's input ends. Error: there
// is no link, or the command cannot be started. Forks: call with one thread.
Result<int> relay(const RelayOrder& order, const std::vector<std::string>& command);

}  // namespace dtrain::launcher
