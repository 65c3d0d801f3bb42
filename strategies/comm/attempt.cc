// See attempt.h. "latest" is the name of rank 0's last attempt, "<name>/came/<rank>" a number that this rank has drawn,
// "<name>/all" rank 0's answer: the numbers of all, by which a rank knows that it was meant and not one that had its
// place before; or that the attempt is over. "<name>/next" is the one after that.
#include "strategies/comm/attempt.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

namespace dtrain {
namespace {

struct Came {
  std::uint64_t number = 0;
  int ranks = 0;  // that it was told of
};

std::string came_key(const std::string& attempt, int rank) { return fmt::format("{}/came/{}", attempt, rank); }
std::string all_key(const std::string& attempt) { return attempt + "/all"; }
std::string next_key(const std::string& attempt) { return attempt + "/next"; }
constexpr const char* kLatest = "latest";

Came await_rank(MeetingPlace& place, const std::string& attempt, int rank, MeetingPlace::Deadline deadline) {
  try {
    const auto json = nlohmann::json::parse(place.take(came_key(attempt, rank), deadline));
    return {json.at("number").get<std::uint64_t>(), json.at("ranks").get<int>()};
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank {} did not come ({})", rank, error.what()));
  }
}

std::string await_rank_0(MeetingPlace& place, const std::string& key, MeetingPlace::Deadline deadline) {
  try {
    return place.take(key, deadline);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank 0 did not answer ({})", error.what()));
  }
}

std::string begin_attempt(MeetingPlace& place) {
  std::string attempt = fmt::format("attempt/{:016x}", random_token());
  const std::string before = place.first(kLatest, attempt);
  if (before == attempt) return attempt;
  place.put(kLatest, attempt);
  // Ranks of this attempt may wait there already.
  place.put(next_key(before), attempt);
  place.put(all_key(before), nlohmann::json{{"over", true}}.dump());
  return attempt;
}

std::string lead(MeetingPlace& place, int ranks, MeetingPlace::Deadline deadline) {
  std::string attempt = begin_attempt(place);
  std::string error;
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(ranks));
  for (int rank = 1; rank < ranks; ++rank) {  // to the last: the answer is for all that came
    try {
      const Came came = await_rank(place, attempt, rank, deadline);
      numbers[static_cast<std::size_t>(rank)] = came.number;
      if (came.ranks == ranks) continue;
      throw std::runtime_error(
          fmt::format("rank 0 was told that the group has {} ranks, and rank {} that it has {}; WORLD_SIZE must be the "
                      "same on every rank",
                      ranks, rank, came.ranks));
    } catch (const std::runtime_error& fault) {
      if (error.empty()) error = fault.what();
    }
  }
  place.put(all_key(attempt), nlohmann::json{{"numbers", numbers}, {"error", error}}.dump());
  if (!error.empty()) throw std::runtime_error(error);
  return attempt;
}

std::string follow(MeetingPlace& place, int rank, int ranks, MeetingPlace::Deadline deadline) {
  const std::uint64_t number = random_token();
  const auto own = static_cast<std::size_t>(rank);
  std::string attempt = await_rank_0(place, kLatest, deadline);
  while (true) {
    place.put(came_key(attempt, rank), nlohmann::json{{"number", number}, {"ranks", ranks}}.dump());
    const auto answer = nlohmann::json::parse(await_rank_0(place, all_key(attempt), deadline));
    const auto numbers = answer.value("numbers", std::vector<std::uint64_t>{});
    if (own < numbers.size() && numbers[own] == number) {
      const auto error = answer.at("error").get<std::string>();
      if (error.empty()) return attempt;
      throw std::runtime_error(error);
    }
    attempt = await_rank_0(place, next_key(attempt), deadline);
  }
}

}  // namespace

std::string new_attempt(MeetingPlace& place, int rank, int ranks, MeetingPlace::Deadline deadline) {
  return rank == 0 ? lead(place, ranks, deadline) : follow(place, rank, ranks, deadline);
}

}  // namespace dtrain
