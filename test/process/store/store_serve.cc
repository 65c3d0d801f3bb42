// store_serve: a worker store for tests in other languages. Prints its port, serves until its stdin ends, then prints
// its statistics as one JSON line.
//   store_serve [--allowed-uid UID] [--output-bytes N] [--store-bytes N] [--connections N] [--greeting-ms N] [--log]
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "rendezvous/store_host.h"

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
  auto store = dtrain::StoreHost::start(std::move(options));
  if (!store) {
    fmt::print(stderr, "store_serve: {}\n", store.error().message);
    return 1;
  }
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
