#pragma once
// `dtrain rendezvous serve`: the words become a server (launcher/service/job_service.h).
#include <string>
#include <vector>

namespace dtrain::cli {

// Returns the exit code: 0 after a signal, 2 usage, 125 the port cannot be had.
int rendezvous_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
