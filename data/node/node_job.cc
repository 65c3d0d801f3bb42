#include "data/node/node_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace dtrain::data {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

std::optional<int> number_in(const char* name) {
  const std::string_view text = variable(name);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<NodeJob> node_job() {
  const auto rank = number_in("RANK"), local_rank = number_in("LOCAL_RANK"), ranks = number_in("LOCAL_WORLD_SIZE");
  if (!local_rank || !ranks || *ranks < 2 || *local_rank < 0 || *local_rank >= *ranks) return std::nullopt;
  NodeJob job{rank.value_or(*local_rank), *ranks, fmt::format("{} {}", getuid(), *ranks)};
  std::size_t named = 0;
  for (const char* name : {"TORCHELASTIC_RUN_ID", "DTRAIN_JOB_ID", "MASTER_PORT"}) {
    named += variable(name).size();
    job.name += fmt::format("\n{}={}", name, variable(name));
  }
  if (named == 0) return std::nullopt;  // two jobs would look alike
  for (const char* name : {"MASTER_ADDR", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT", "DTRAIN_ROUND"}) {
    job.name += fmt::format("\n{}={}", name, variable(name));
  }
  return job;
}

}  // namespace dtrain::data
