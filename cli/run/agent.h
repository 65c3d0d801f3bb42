#pragma once
// `dtrain agent`: the agent of one node, which an engine has started and tells by standard input what to do
// (launcher/engines/agent_wire.h).

namespace dtrain::cli {

// Returns the exit code of the job, or of an error, which the engine is told.
int agent_command();

}  // namespace dtrain::cli
