#pragma once
// `dtrain agent`: the agent of one node, which an engine has started and tells by standard input what to do
// (launcher/engine_wire/agent_wire.h). Or a branch, which starts agents of other hosts, too.
#include <string>

namespace dtrain::cli {

// Returns the exit code of the job, or of an error, which the engine is told.
int agent_command();
// Whether this node sees a folder in which dtrain-data builds: prints one line if it does not, with the node's name.
// Returns 0 in both cases, so that a scheduler adds no words of its own.
int look_command(const std::string& folder);
// The same agent, by a relay to the submitter that the first line of standard input names (launcher/submit/relay.h).
int relay_command();

}  // namespace dtrain::cli
