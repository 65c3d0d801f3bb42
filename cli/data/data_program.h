#pragma once
// dtrain-data: the program beside dtrain that knows Arrow and the cache. What it is asked goes to its standard input.
#include <functional>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Takes this process's place. Returns only with an error: 127 if the program is not there.
int become_dtrain_data(const std::string& command, const std::string& request);

struct DataAnswer {
  int code = 0;    // it has said why, if it is not 0
  int signal = 0;  // one that has asked this process to end, while dtrain-data worked
  std::string text{};
};
// Asks the nodes of the job whether they see the folder in which dtrain-data is about to build. Returns 0, or an exit
// code, and the reason has been said. It is called in a process of its own, which SIGTERM may end.
using AskNodes = std::function<int(const std::string& folder)>;
// Runs it to its end, and gives what it has printed. A signal that this process gets goes to it first, so that it
// leaves nothing. It ends when this process dies. `ask`: for a request with "asks_nodes" (data_command.h); may be
// empty. Forks: call with one thread.
Result<DataAnswer> ask_dtrain_data(const std::string& command, const std::string& request, const AskNodes& ask = {});

}  // namespace dtrain::cli
