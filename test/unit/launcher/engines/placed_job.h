#pragma once
// A placement under test, and what its hosts say.
#include <string>
#include <utility>
#include <vector>

#include "launcher/engines/placement.h"
#include "test/support/catch.h"

namespace dtrain::launcher {

inline constexpr const char* kVersion = "dtrain 1.0";
inline const MonoTime kStart{};

inline PlacementRequest request(std::vector<PlacedHost> hosts) {
  PlacementRequest asked;
  asked.least = static_cast<int>(hosts.size());
  asked.hosts = std::move(hosts);
  asked.version = kVersion;
  asked.task.called = "dtrain";
  asked.task.words = {"--", "true"};
  asked.task.place.engine = "ssh";
  asked.task.place.run_id = "job-1";
  return asked;
}

inline std::string card(int host) { return card_line({kVersion, "h", {"10.0.0." + std::to_string(host)}}); }

struct Job {
  Placement placement;

  explicit Job(PlacementRequest asked) : placement(std::move(asked), kStart) { placement.take_orders(); }

  void shows_card(int host, MonoTime now = kStart) { placement.said(host, card(host), now); }
  void is_ready(int host) { placement.said(host, verdict_line({}), kStart); }
  void ends(int host, int code) { placement.ended(host, code, kStart); }
  // By host; an empty place: nothing was sent there.
  std::vector<AgentPlace> places(std::size_t hosts) {
    std::vector<AgentPlace> found(hosts);
    for (const auto& order : placement.take_orders()) {
      REQUIRE(order.what == Placement::Order::What::send);
      const auto task = parse_agent_task(order.line);
      REQUIRE(task.ok());
      found[static_cast<std::size_t>(order.host)] = task->place;
    }
    return found;
  }
  int dropped() {
    int count = 0;
    for (const auto& order : placement.take_orders()) count += order.what == Placement::Order::What::drop ? 1 : 0;
    return count;
  }
  std::string failure() const {
    REQUIRE(placement.end().has_value());
    REQUIRE_FALSE(placement.end()->ok());
    return placement.end()->error().message;
  }
  int code() const {
    REQUIRE(placement.end().has_value());
    REQUIRE(placement.end()->ok());
    return **placement.end();
  }
};

inline Job running(int hosts) {
  std::vector<PlacedHost> named;
  named.reserve(static_cast<std::size_t>(hosts));
  for (int i = 0; i < hosts; ++i) named.push_back({"h" + std::to_string(i)});
  Job job(request(std::move(named)));
  for (int i = 0; i < hosts; ++i) job.shows_card(i);
  for (int i = 0; i < hosts; ++i) job.is_ready(i);
  job.placement.take_orders();
  REQUIRE(job.placement.has_begun());
  return job;
}

}  // namespace dtrain::launcher
