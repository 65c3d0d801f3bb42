// What RoundCore costs for each simulated agent, as they grow more: rounds_bench [COUNT...]. One line for each count:
// microseconds and messages an agent until all are ranked, for a round after one was lost, and until the job has ended;
// then how much more they are with most agents than with fewest.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "rendezvous/rounds/round_core.h"

namespace {

using namespace dtrain;

struct Bench {
  explicit Bench(int agents) : count(agents), core(settings(agents)) {}

  static RoundSettings settings(int agents) {
    RoundSettings s;
    s.job = "j";
    s.host_agent = "a1";
    s.min_nodes = agents - 1;
    s.max_nodes = agents;
    return s;
  }
  NodeInfo info(MemberId id) const {
    NodeInfo n;
    n.job = "j";
    n.agent_id = "a" + std::to_string(id);
    n.host = "h" + std::to_string(id);
    n.workers = 8;
    n.min_nodes = count - 1;
    n.max_nodes = count;
    return n;
  }
  void take(const RoundEvent& event) {
    ++messages;
    messages += core.step(event, now).size();
  }
  // Microseconds and messages an agent.
  template <class F>
  void measure(F&& what) {
    messages = 0;
    const auto begin = std::chrono::steady_clock::now();
    what();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    fmt::print(" {:>10.2f} {:>9.2f}", took.count() / count, double(messages) / count);
    us += took.count() / count;
  }
  // All microseconds an agent.
  double run() {
    fmt::print("{:>8}", count);
    measure([&] {
      for (int i = 1; i <= count; ++i) take(round_event::Said{MemberId(i), msg::Join{info(MemberId(i))}});
    });
    measure([&] {
      take(round_event::Gone{MemberId(count)});
      for (int i = 1; i < count; ++i) take(round_event::Said{MemberId(i), msg::Over{core.round(), false}});
    });
    measure([&] {
      for (int i = 1; i < count; ++i) take(round_event::Said{MemberId(i), msg::Over{core.round(), true}});
    });
    fmt::print("\n");
    if (core.phase() != RoundPhase::ended || core.round() != 1) std::exit(1);
    return us;
  }

  int count;
  RoundCore core;
  MonoTime now{};
  std::size_t messages = 0;
  double us = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> counts = {100, 1000, 10000, 100000};
  if (argc > 1) counts.clear();
  for (int i = 1; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
  fmt::print("  agents   join: us  messages    lost: us  messages     end: us  messages   (an agent)\n");
  std::vector<double> us;
  for (const int count : counts) us.push_back(Bench(count).run());
  if (counts.size() < 2) return 0;
  fmt::print("an agent takes {:.1f} times as long among {} as among {}; the logarithm grows {:.1f} times\n",
             us.back() / us.front(), counts.back(), counts.front(),
             std::log(double(counts.back())) / std::log(double(counts.front())));
}
