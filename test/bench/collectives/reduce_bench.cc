// How fast the reduction kernels are: `reduce_bench [seconds of measuring, 10]`. For each element type,
// number of sources and size: GB/s read and written by each variant that this CPU has, and by memcpy. The best of many
// rounds in which all take turns; small buffers stay in the caches, those of 16 MiB do not.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "strategies/comm/kernels/reduce.h"

using namespace dtrain;
using Clock = std::chrono::steady_clock;

namespace {

struct Runner {
  const char* name;
  std::size_t bytes_moved;
  std::function<void()> run;
  double best_seconds = 1e9;
};

void measure(std::vector<Runner>& runners, std::size_t bytes, double seconds) {
  const int repeats = static_cast<int>(std::max<std::size_t>(1, (1U << 20) / bytes));
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    for (Runner& runner : runners) {
      const auto start = Clock::now();
      for (int i = 0; i < repeats; ++i) runner.run();
      const std::chrono::duration<double> took = Clock::now() - start;
      runner.best_seconds = std::min(runner.best_seconds, took.count() / repeats);
    }
  } while (Clock::now() < end);
}

void compare(ElementType type, std::size_t ranks, std::size_t bytes, double seconds) {
  // Side by side, as the slots of a group are.
  std::vector<std::byte> room((ranks + 1) * bytes, std::byte{0x3F});
  std::vector<const std::byte*> sources;
  for (std::size_t r = 0; r < ranks; ++r) sources.push_back(&room[r * bytes]);
  std::byte* out = &room[ranks * bytes];
  const ReduceJob job{type, Reduction::sum, sources.data(), ranks, out, bytes / size_of(type)};
  std::vector<Runner> runners{{"memcpy", 2 * bytes, [&] { std::memcpy(out, sources[0], bytes); }}};
  for (const ReduceVariant& variant : reduce_variants()) {
    runners.push_back({variant.name, (ranks + 1) * bytes, [&job, &variant] { variant.run(job); }});
  }
  measure(runners, bytes, seconds);
  fmt::print("{:9} {} sources {:6} KiB", name_of(type), ranks, bytes >> 10);
  for (const Runner& runner : runners) {
    fmt::print("  {} {:6.1f}", runner.name, static_cast<double>(runner.bytes_moved) * 1e-9 / runner.best_seconds);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 10;
  fmt::print("GB/s read and written, sums\n");
  for (const ElementType type : {ElementType::f32, ElementType::bf16, ElementType::f16}) {
    for (const std::size_t ranks : {2UL, 4UL, 16UL}) {
      for (const std::size_t bytes : {64UL << 10, 16UL << 20}) compare(type, ranks, bytes, seconds / 18);
    }
  }
}
