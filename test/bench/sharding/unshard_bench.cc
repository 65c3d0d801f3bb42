// What it costs to make groups of parameters whole, under the strategy of DTRAIN_STRATEGY. Rank 0 prints a line of
// JSON.
//
// unshard_bench gather MEGABYTES COUNT: a group of four float32 parameters is gathered and freed COUNT times. Medians
// of
//   the microseconds of a gather, until the parameters may be read, and of a barrier; each time the slowest rank's.
// unshard_bench groups GROUPS STEPS: GROUPS units, each of two linear layers of 8 x 8, train as Parallel and as a plain
//   module; the two take turns. Microseconds for each group of a step: the median of the time with Parallel, less the
//   median of that without. "thread": time of the program's thread on a core, which does not count waiting for other
//   ranks; "wall": by the clock; "process": time of all threads on cores.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>

#include "dtrain/dtrain.h"
#include "strategies/parallel/group_builder.h"
#include "test/bench/timing.h"

namespace {

using dtrain::Session, dtrain::bench::median;

double now_on(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

double median_of_slowest(Session& session, const std::vector<double>& mine) {
  torch::Tensor all = torch::tensor(mine, torch::kDouble);
  session.all_reduce(all, c10d::ReduceOp::MAX);
  return median({all.data_ptr<double>(), all.data_ptr<double>() + all.numel()});
}

void gather(Session& session, std::int64_t megabytes, int count) {
  constexpr std::int64_t kParameters = 4;
  const auto settings = dtrain::shard_settings(session, session.env().strategy, {});
  std::vector<dtrain::NamedTensor> parameters;
  for (std::int64_t i = 0; i < kParameters; ++i)
    parameters.push_back({"p" + std::to_string(i), torch::ones({megabytes * 1024, 1024 / 4 / kParameters})});
  std::vector<std::int64_t> loads(static_cast<std::size_t>(session.world_size()), 0);
  dtrain::ShardGroup group(settings, "group", parameters, loads);
  std::vector<double> gathers, barriers;
  for (int i = 0; i < count; ++i) {
    session.barrier();
    const double began = now_on(CLOCK_MONOTONIC);
    group.begin_gather();
    group.end_gather();
    const double whole = now_on(CLOCK_MONOTONIC);
    TORCH_CHECK(parameters.back().tensor.view({-1})[-1].item<float>() == 1, "the group is not whole");
    session.barrier();
    group.free();
    const double freed = now_on(CLOCK_MONOTONIC);
    session.barrier();
    gathers.push_back(whole - began);
    barriers.push_back(now_on(CLOCK_MONOTONIC) - freed);
  }
  const double gathered = median_of_slowest(session, gathers), barrier = median_of_slowest(session, barriers);
  if (session.is_first()) std::cout << "{\"gather\": " << gathered << ", \"barrier\": " << barrier << "}\n";
}

struct UnshardBlockImpl : torch::nn::Module {
  UnshardBlockImpl()
      : first(register_module("first", torch::nn::Linear(8, 8))),
        second(register_module("second", torch::nn::Linear(8, 8))) {}
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first, second;
};
DTRAIN_UNIT(UnshardBlock);

struct UnshardNetImpl : torch::nn::Module {
  explicit UnshardNetImpl(int groups) {
    for (int i = 0; i < groups; ++i) blocks->push_back(UnshardBlock());
    register_module("blocks", blocks);
  }
  torch::Tensor forward(const torch::Tensor& x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(UnshardNet);

constexpr std::pair<const char*, clockid_t> kClocks[] = {
    {"thread", CLOCK_THREAD_CPUTIME_ID}, {"wall", CLOCK_MONOTONIC}, {"process", CLOCK_PROCESS_CPUTIME_ID}};
constexpr std::size_t kClockCount = std::size(kClocks);

struct Times {
  std::vector<double> by_clock[kClockCount];

  void add(const std::function<void()>& act) {
    double began[kClockCount];
    for (std::size_t c = 0; c < kClockCount; ++c) began[c] = now_on(kClocks[c].second);
    act();
    for (std::size_t c = 0; c < kClockCount; ++c) by_clock[c].push_back(now_on(kClocks[c].second) - began[c]);
  }
};

void groups(Session& session, int count, int steps) {
  dtrain::Parallel model(session, [&] { return UnshardNet(count); });
  UnshardNet plain(count);
  const torch::Tensor x = torch::ones({4, 8});
  Times sharded, alone;
  for (int step = 0; step < steps; ++step) {
    session.barrier();
    sharded.add([&] {
      model.zero_grad();
      model(x).sum().backward();
    });
    session.barrier();
    alone.add([&] {
      plain->zero_grad();
      plain->forward(x).sum().backward();
    });
  }
  if (!session.is_first()) return;
  for (std::size_t c = 0; c < kClockCount; ++c)
    std::cout << (c == 0 ? "{\"" : ", \"") << kClocks[c].first
              << "\": " << (median(sharded.by_clock[c]) - median(alone.by_clock[c])) / count;
  std::cout << "}\n";
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count == 4 ? arguments[1] : "";
  if (what != "gather" && what != "groups") {
    std::cerr << "usage: unshard_bench gather MEGABYTES COUNT | groups GROUPS STEPS\n";
    return 2;
  }
  torch::set_num_threads(1);
  auto session = dtrain::init();
  if (what == "gather") gather(session, std::atoll(arguments[2]), std::atoi(arguments[3]));
  if (what == "groups") groups(session, std::atoi(arguments[2]), std::atoi(arguments[3]));
  session.shutdown();
}
