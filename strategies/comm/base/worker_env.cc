// Reads the worker environment; see include/dtrain/worker_env.h.
#include "dtrain/worker_env.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

namespace dtrain {
namespace {

std::optional<int> read_int(const EnvLookup& lookup, const char* name, int low, int high) {
  const std::optional<std::string> text = lookup(name);
  if (!text || text->empty()) return std::nullopt;
  int value = 0;
  const auto [end, status] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (status != std::errc() || end != text->data() + text->size() || value < low || value > high) {
    throw ConfigError(
        fmt::format("dtrain: {}='{}' is not a whole number from {} to {}; start workers with dtrain run or "
                    "torchrun, or correct the variable",
                    name, *text, low, high));
  }
  return value;
}

constexpr int kMaxRanks = 1 << 20;

void read_ranks(const EnvLookup& lookup, WorkerEnv& env) {
  const auto rank = read_int(lookup, "RANK", 0, kMaxRanks);
  const auto world_size = read_int(lookup, "WORLD_SIZE", 1, kMaxRanks);
  if (!rank && !world_size) return;
  if (!rank || !world_size) {
    throw ConfigError(
        fmt::format("dtrain: {} is set but {} is not; a launcher sets both, and without a launcher neither is set",
                    rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK"));
  }
  env.launched = true;
  env.rank = *rank;
  env.world_size = *world_size;
  if (env.rank >= env.world_size) {
    throw ConfigError(fmt::format("dtrain: RANK={} must be below WORLD_SIZE={}", env.rank, env.world_size));
  }
  env.local_rank = read_int(lookup, "LOCAL_RANK", 0, kMaxRanks).value_or(env.rank);
  env.local_world_size = read_int(lookup, "LOCAL_WORLD_SIZE", 1, kMaxRanks).value_or(env.world_size);
  if (env.local_world_size > env.world_size) {
    throw ConfigError(
        fmt::format("dtrain: LOCAL_WORLD_SIZE={} must not exceed WORLD_SIZE={}", env.local_world_size, env.world_size));
  }
  if (env.local_rank >= env.local_world_size) {
    throw ConfigError(
        fmt::format("dtrain: LOCAL_RANK={} must be below LOCAL_WORLD_SIZE={}", env.local_rank, env.local_world_size));
  }
}

void read_store(const EnvLookup& lookup, WorkerEnv& env) {
  env.agent_store = lookup("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  env.restart_count = read_int(lookup, "TORCHELASTIC_RESTART_COUNT", 0, 1 << 30).value_or(0);
  env.run_id = lookup("TORCHELASTIC_RUN_ID").value_or("");
  env.master_addr = lookup("MASTER_ADDR").value_or("");
  env.master_port = static_cast<std::uint16_t>(read_int(lookup, "MASTER_PORT", 1, 65535).value_or(0));
  if (env.world_size == 1) return;
  if (env.master_addr.empty() || env.master_port == 0) {
    throw ConfigError(
        fmt::format("dtrain: {} is not set, and the {} ranks meet there; start them with dtrain run or torchrun, or "
                    "set MASTER_ADDR and MASTER_PORT",
                    env.master_addr.empty() ? "MASTER_ADDR" : "MASTER_PORT", env.world_size));
  }
}

// "3.1": the second process in the place of rank 3.
std::string read_member(const EnvLookup& lookup) {
  std::string text = lookup("DTRAIN_MEMBER").value_or("");
  const std::size_t dot = text.find('.');
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == part.npos;
  };
  const std::string_view name = text;
  if (!text.empty() && (dot == text.npos || !digits(name.substr(0, dot)) || !digits(name.substr(dot + 1))))
    throw ConfigError(fmt::format("dtrain: DTRAIN_MEMBER='{}' is not a name such as 3.0; dtrain run sets it", text));
  return text;
}

void read_config(const EnvLookup& lookup, WorkerEnv& env) {
  const std::string text = lookup("DTRAIN_STRATEGY").value_or("");
  if (text.empty()) return;
  Config config = parse_config(text, {.ranks = env.world_size, .ranks_of_host = env.local_world_size});
  env.strategy = config.strategy;
  env.training = std::move(config.training);
}

}  // namespace

WorkerEnv parse_worker_env(const EnvLookup& lookup) {
  WorkerEnv env;
  read_ranks(lookup, env);
  read_store(lookup, env);
  read_config(lookup, env);
  env.round = read_int(lookup, "DTRAIN_ROUND", 0, std::numeric_limits<int>::max()).value_or(0);
  env.group_rank = read_int(lookup, "GROUP_RANK", 0, std::numeric_limits<int>::max()).value_or(0);
  env.member = read_member(lookup);
  env.state_fd = read_int(lookup, "DTRAIN_STATE_FD", 0, std::numeric_limits<int>::max()).value_or(-1);
  env.state_copy_fd = read_int(lookup, "DTRAIN_STATE_COPY_FD", 0, std::numeric_limits<int>::max()).value_or(-1);
  return env;
}

EnvLookup process_env() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

}  // namespace dtrain
