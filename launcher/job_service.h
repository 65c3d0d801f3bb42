#pragma once
// `dtrain rendezvous serve` as a process: the server of many jobs, its signals, and what it says of itself.
#include <cstdint>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/job_secret.h"
#include "rendezvous/job_server.h"

namespace dtrain::launcher {

struct ServiceSpec {
  std::string address = "::";  // numeric; "::": all of this host
  std::uint16_t port = 29400;  // 0: any free one
  JobSecret secret;
  JobServerLimits limits;
};

// Serve until a stop signal (SIGTERM, SIGINT, SIGHUP): then there are no new jobs, and it returns 0 when the last one
// has ended; a second signal ends them all. Says on stderr what begins and ends, and tells systemd (NOTIFY_SOCKET) when
// it is ready. Errors: the port cannot be had.
Result<int> run_service(const ServiceSpec& spec);

}  // namespace dtrain::launcher
