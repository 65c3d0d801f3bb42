#include "cli/commands/await_host.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "rendezvous/base/clock.h"
#include "rendezvous/net/host_names.h"

namespace dtrain::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSayAgain = std::chrono::seconds(10);
constexpr auto kFirstPause = std::chrono::milliseconds(250);
constexpr auto kLongestPause = std::chrono::seconds(2);

void pause(Clock::duration time) {
  ::poll(nullptr, 0, int(std::chrono::ceil<std::chrono::milliseconds>(time).count()));
}

}  // namespace

bool await_host(const Plan& plan, Clock::time_point since) {
  const auto& nodes = plan.spec.nodes;
  const auto end = since + nodes.join_timeout;
  auto say_at = Clock::now();
  for (Clock::duration time = kFirstPause;; time = std::min<Clock::duration>(2 * time, kLongestPause)) {
    const auto found = addresses_of_host(plan.awaited_host);
    if (found) return true;
    const auto left = end - Clock::now();
    if (left <= Clock::duration{}) {
      std::fprintf(stderr, "dtrain: %s; given up after %g s (--rdzv-conf %s)\n", found.error().message.c_str(),
                   in_seconds(nodes.join_timeout), nodes.node_rank < 0 ? "join_timeout" : "timeout");
      return false;
    }
    if (!plan.spec.quiet && Clock::now() >= say_at) {
      std::fprintf(stderr, "dtrain: waiting: %s, %.0f s left\n", found.error().message.c_str(), in_seconds(left));
      say_at += kSayAgain;
    }
    pause(std::min<Clock::duration>(time, left));
  }
}

}  // namespace dtrain::cli
