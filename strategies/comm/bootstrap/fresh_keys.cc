// See fresh_keys.h. The keys: "latest" is the name of rank 0's last attempt. "<name>/came/<rank>" is a number that this
// rank has drawn. "<name>/all" is rank 0's answer: the numbers of all ranks, by which a rank knows that the answer is
// for it and not for an earlier process of the same rank; or that the attempt is over. "<name>/next" is the name of the
// next attempt.
#include "strategies/comm/bootstrap/fresh_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "strategies/comm/base/shared_memory.h"
#include "strategies/comm/bootstrap/store_answer.h"

namespace dtrain {
namespace {

struct Came {
  std::uint64_t number = 0;
  int ranks = 0;  // how many ranks the rank was told of
};

std::string came_key(const std::string& attempt, int rank) { return fmt::format("{}/came/{}", attempt, rank); }
std::string all_key(const std::string& attempt) { return attempt + "/all"; }
std::string next_key(const std::string& attempt) { return attempt + "/next"; }
constexpr const char* kLatest = "latest";
// How long rank 0 looks, in a store that may be far away, for the ranks that came, after it has missed one.
constexpr std::chrono::seconds kForOthers{2};

// The name of an attempt. Rank 0 chooses names.
std::string take_name(GroupStore& store, const std::string& key, GroupStore::Deadline deadline) {
  return take_from(store, key, 0, "answer", deadline).get<std::string>();
}

Came await_rank(GroupStore& store, const std::string& attempt, int rank, GroupStore::Deadline deadline) {
  const auto json = take_from(store, came_key(attempt, rank), rank, "come", deadline);
  return {json.at("number").get<std::uint64_t>(), json.at("ranks").get<int>()};
}

std::string begin_attempt(GroupStore& store) {
  const nlohmann::json attempt = fmt::format("attempt/{:016x}", random_token());
  const auto before = nlohmann::json::parse(store.first(kLatest, attempt.dump()));
  store.put(kLatest, attempt.dump());  // first() may not have woken those that wait
  if (before != attempt) {
    // Ranks of this attempt may wait there already.
    store.put(next_key(before), attempt.dump());
    store.put(all_key(before), nlohmann::json{{"over", true}}.dump());
  }
  return attempt;
}

std::string lead(GroupStore& store, int ranks, GroupStore::Deadline deadline) {
  std::string attempt = begin_attempt(store);
  std::string error;
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(ranks));
  for (int rank = 1; rank < ranks; ++rank) {  // up to the last rank: the answer is for all that came
    try {
      const Came came = await_rank(store, attempt, rank, deadline);
      numbers[static_cast<std::size_t>(rank)] = came.number;
      if (came.ranks == ranks) continue;
      throw std::runtime_error(
          fmt::format("rank 0 was told that the group has {} ranks, and rank {} that it has {}; WORLD_SIZE must be the "
                      "same on every rank",
                      ranks, rank, came.ranks));
    } catch (const std::exception& fault) {
      if (!error.empty()) continue;
      error = fault.what();
      deadline = std::max(deadline, std::chrono::steady_clock::now() + kForOthers);
    }
  }
  store.put(all_key(attempt), nlohmann::json{{"numbers", numbers}, {"error", error}}.dump());
  if (!error.empty()) throw std::runtime_error(error);
  return attempt;
}

std::string follow(GroupStore& store, int rank, int ranks, GroupStore::Deadline deadline) {
  const std::uint64_t number = random_token();
  const auto own = static_cast<std::size_t>(rank);
  std::string attempt = take_name(store, kLatest, deadline);
  while (true) {
    store.put(came_key(attempt, rank), nlohmann::json{{"number", number}, {"ranks", ranks}}.dump());
    // Rank 0 answers at its own deadline, after it has looked for the others.
    const auto answer = take_from(store, all_key(attempt), 0, "answer", deadline + 2 * kForOthers);
    const auto numbers = answer.value("numbers", std::vector<std::uint64_t>{});
    if (own < numbers.size() && numbers[own] == number) {
      const auto error = answer.at("error").get<std::string>();
      if (error.empty()) return attempt;
      throw std::runtime_error(error);
    }
    try {
      attempt = take_name(store, next_key(attempt), deadline);
    } catch (const std::runtime_error&) {
      if (own < numbers.size() || numbers.empty()) throw;
      throw std::runtime_error(
          fmt::format("rank 0 did not answer; its last group had {} ranks, and rank {} was told of {} (WORLD_SIZE)",
                      numbers.size(), rank, ranks));
    }
  }
}

}  // namespace

std::string new_attempt(GroupStore& store, int rank, int ranks, GroupStore::Deadline deadline) {
  return rank == 0 ? lead(store, ranks, deadline) : follow(store, rank, ranks, deadline);
}

}  // namespace dtrain
