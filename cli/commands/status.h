#pragma once
// `dtrain status`: what this user's jobs on this host are doing. Asks every agent, and every server, at its socket.
#include <string>
#include <vector>

namespace dtrain::cli {

// Returns the exit code: 1 where there is no such job.
int status_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
