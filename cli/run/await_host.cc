#include "cli/run/await_host.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "launcher/front/order_lines.h"
#include "launcher/job/exit_codes.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/net/host_names.h"

namespace dtrain::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSayAgain = std::chrono::seconds(10);
constexpr auto kFirstPause = std::chrono::milliseconds(250);
constexpr auto kLongestPause = std::chrono::seconds(2);

// Until the time has passed, or an engine says something: the signal by which it ends the job.
std::optional<int> pause(Clock::duration time, const launcher::JobSpec& spec, launcher::OrderLines& lines) {
  pollfd orders{spec.orders, POLLIN, 0};
  if (::poll(&orders, 1, int(std::chrono::ceil<std::chrono::milliseconds>(time).count())) <= 0) return std::nullopt;
  char chunk[256];
  const ssize_t got = ::read(spec.orders, chunk, sizeof chunk);
  if (got <= 0) return SIGTERM;
  std::optional<int> ends;
  lines.feed({chunk, static_cast<std::size_t>(got)}, [&](int signal) {
    const auto& stops = spec.stop_signals;
    if (!ends && std::find(stops.begin(), stops.end(), signal) != stops.end()) ends = signal;
  });
  return ends;
}

}  // namespace

std::optional<int> await_host(const Plan& plan, Clock::time_point since) {
  const auto& nodes = plan.spec.nodes;
  const auto end = since + nodes.join_timeout;
  auto say_at = Clock::now();
  launcher::OrderLines lines;
  for (Clock::duration time = kFirstPause;; time = std::min<Clock::duration>(2 * time, kLongestPause)) {
    const auto found = addresses_of_host(plan.awaited_host);
    if (found) return std::nullopt;
    const auto left = end - Clock::now();
    if (left <= Clock::duration{}) {
      std::fprintf(stderr, "dtrain: %s; given up after %g s (--rdzv-conf %s)\n", found.error().message.c_str(),
                   in_seconds(nodes.join_timeout), nodes.node_rank < 0 ? "join_timeout" : "timeout");
      return launcher::kExitTimeLimit;
    }
    if (!plan.spec.quiet && Clock::now() >= say_at) {
      std::fprintf(stderr, "dtrain: waiting: %s, %.0f s left\n", found.error().message.c_str(), in_seconds(left));
      say_at += kSayAgain;
    }
    if (const auto signal = pause(std::min<Clock::duration>(time, left), plan.spec, lines)) return 128 + *signal;
  }
}

}  // namespace dtrain::cli
