#pragma once
// How the agents of an MPI job get to know each other: two fences, with cards before the first and seats before the
// second. The job's secret is made by rank 0, and sealed for each agent.
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/credentials/job_secret.h"
#include "rendezvous/pmi/mpi_cards.h"
#include "rendezvous/pmi/pmi_exchange.h"

namespace dtrain {

struct MpiMeeting {
  std::string job{};
  MpiSeat seat;                        // its secret is `secret`
  std::vector<std::string> addresses;  // of node 0
  std::vector<std::string> hosts;      // of the agents, by node rank; of node 0 alone
  std::optional<JobSecret> secret;     // if there are several nodes
  bool bound = false;                  // as in PmiExchange::Facts
};

// What a process says of itself.
struct MpiSelf {
  std::vector<std::string> addresses;
  std::vector<int> cpus;
  std::string command, credential, failure;  // as in its card
  ErrorKind failure_kind{};
};

// All processes of the job must call. Blocks until they have. If one of them cannot start, it is an error for all.
Result<MpiMeeting> meet(PmiExchange& exchange, const MpiSelf& self);

}  // namespace dtrain
