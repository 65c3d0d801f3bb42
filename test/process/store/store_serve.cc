// store_serve: a worker store for tests in other languages. Prints its port, serves until its stdin ends, then prints
// its statistics as one JSON line.
//   store_serve [--allowed-uid UID] [--output-bytes N] [--store-bytes N] [--connections N] [--greeting-ms N] [--log]
//               [--links 1]      takes store links at its port as well, for round 1
//               [--relay PORT]   is an edge of the store_serve --links at that port
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/store_relay/store_link_wire.h"
#include "rendezvous/store_server/store_host.h"

namespace {

bool parse(int argc, char** argv, dtrain::StoreHost::Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--log") {
      options.log = [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
      continue;
    }
    if (i + 1 == argc) return false;
    const auto number = std::strtoull(argv[++i], nullptr, 10);
    if (flag == "--allowed-uid") {
      options.allowed_uid = static_cast<uid_t>(number);
    } else if (flag == "--output-bytes") {
      options.limits.output_bytes = number;
    } else if (flag == "--store-bytes") {
      options.limits.core.bytes = number;
    } else if (flag == "--connections") {
      options.limits.connections = number;
    } else if (flag == "--greeting-ms") {
      options.limits.greeting = std::chrono::milliseconds(number);
    } else if (flag == "--relay") {
      options.remote = dtrain::StoreRemote{.address = "127.0.0.1", .port = static_cast<std::uint16_t>(number)};
    } else if (flag == "--links") {
      options.adopt_byte = dtrain::kStoreLinkGreeting.front();
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  dtrain::StoreHost::Options options;
  if (!parse(argc, argv, options)) {
    fmt::print(stderr, "store_serve: bad arguments; see the top of store_serve.cc\n");
    return 2;
  }
  dtrain::StoreHost* host = nullptr;
  const bool links = options.adopt_byte != 0;
  if (links) {
    options.adopt = [&host](dtrain::UniqueFd socket, std::string received) {
      host->adopt_link(std::move(socket), std::move(received));
    };
  }
  const bool rounds = links || options.remote;
  auto store = dtrain::StoreHost::start(std::move(options));
  if (!store) {
    fmt::print(stderr, "store_serve: {}\n", store.error().message);
    return 1;
  }
  host = store->get();  // nobody knows the port yet
  if (rounds) host->begin_round(1);
  fmt::print("{}\n", (*store)->port());
  std::fflush(stdout);
  char ignored[256];
  while (::read(STDIN_FILENO, ignored, sizeof(ignored)) > 0) {
  }
  const dtrain::StoreStats stats = (*store)->stats();
  fmt::print("{{\"requests\": {}, \"accepted\": {}, \"refused\": {}, \"open\": {}, \"keys\": {}, \"bytes\": {}}}\n",
             stats.requests, stats.connections_accepted, stats.connections_refused, stats.connections_open, stats.keys,
             stats.bytes);
  return 0;
}
