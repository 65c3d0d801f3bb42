#pragma once
// `dtrain rendezvous serve` as a process: the server of many jobs, its signals, and what it says of itself.
// Tested by test/process/launcher/serve_test.py.
#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/credentials/link_credential.h"
#include "rendezvous/server/job_server.h"

namespace dtrain::launcher {

// A store for agents of other launchers, which know no token (`torchrun --rdzv-backend c10d`): torch's TCPStore, in
// clear, for whoever can connect.
struct OpenStore {
  std::string address;  // numeric
  std::uint16_t port = 0;
};

struct ServiceSpec {
  static constexpr std::uint16_t kUsualPort = 29400;
  std::string address = "::";       // numeric; "::": all of this host
  std::uint16_t port = kUsualPort;  // 0: any free one
  LinkCredential credential;
  JobServerLimits limits;  // those of a store are the open store's too
  std::optional<OpenStore> open_store{};
};

// Serve until a stop signal (SIGTERM, SIGINT, SIGHUP): then there are no new jobs, and it returns 0 when the last one
// has ended; a second signal ends them all. Says on stderr what begins and ends, and tells systemd (NOTIFY_SOCKET) when
// it is ready. Errors: a port cannot be had.
Result<int> run_service(const ServiceSpec& spec);

}  // namespace dtrain::launcher
