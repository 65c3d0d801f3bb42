#include "launcher/base/readable.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace dtrain::launcher {

std::string readable_bytes(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string readable_duration(std::chrono::nanoseconds duration) {
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  auto seconds = ms / 1000;
  if (seconds < 1) return fmt::format("{} ms", ms);
  if (seconds < 60) return fmt::format("{:.1f} s", static_cast<double>(ms / 100) / 10);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

std::string fold_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ',';
    text += std::to_string(ranks[i]);
    if (last > i) text += (last == i + 1 ? "," : "-") + std::to_string(ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace dtrain::launcher
