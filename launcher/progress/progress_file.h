#pragma once
// What rank 0's program tells of its progress, in a file (DTRAIN_PROGRESS_FILE, docs/worker-contract.md) that it writes
// anew as often as it likes: dtrain::report_progress(), or any program that can write a line of JSON.
//
//   {"step": 450, "steps": 1000, "metrics": {"loss": 0.23}}
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

struct Progress {
  std::optional<std::int64_t> step{}, steps{};  // done, and to do in all
  std::optional<double> percent{};              // 0 to 100; without it: step of steps
  std::optional<double> seconds_left{};
  // In the file's order; numbers as JSON writes them, and texts as they are.
  std::vector<std::pair<std::string, std::string>> metrics{};
  bool operator==(const Progress&) const = default;
};

inline constexpr std::size_t kLongestProgressFile = std::size_t{64} << 10;
inline constexpr std::size_t kMostMetrics = 64;
inline constexpr double kMostSecondsLeft = 2147483647;  // Trainer's field has 32 bits

// The file of rank 0 in the folder of its round; empty without a folder.
std::string progress_path(const std::string& round_folder);

// The file's text, of any bytes. An error says what is wrong with it. Members that are not known are left alone. Pure.
Result<Progress> parse_progress(std::string_view text);

}  // namespace dtrain::launcher
