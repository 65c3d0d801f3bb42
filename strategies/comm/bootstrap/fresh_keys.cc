// See attempt.h. "latest" is the name of rank 0's last attempt, "<name>/came/<rank>" a number that this rank has drawn,
// "<name>/all" rank 0's answer: the numbers of all, by which a rank knows that it was meant and not one that had its
// place before; or that the attempt is over. "<name>/next" is the one after that.
#include "strategies/comm/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "strategies/comm/answer.h"

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
// To find, in a store that is far away, those that came beside one that did not.
constexpr std::chrono::seconds kForOthers{2};

// The name of an attempt, which is rank 0's to choose.
std::string take_name(MeetingPlace& place, const std::string& key, MeetingPlace::Deadline deadline) {
  return take_from(place, key, 0, "answer", deadline).get<std::string>();
}

Came await_rank(MeetingPlace& place, const std::string& attempt, int rank, MeetingPlace::Deadline deadline) {
  const auto json = take_from(place, came_key(attempt, rank), rank, "come", deadline);
  return {json.at("number").get<std::uint64_t>(), json.at("ranks").get<int>()};
}

std::string begin_attempt(MeetingPlace& place) {
  const nlohmann::json attempt = fmt::format("attempt/{:016x}", random_token());
  const auto before = nlohmann::json::parse(place.first(kLatest, attempt.dump()));
  place.put(kLatest, attempt.dump());  // first() may have woken nobody
  if (before != attempt) {
    // Ranks of this attempt may wait there already.
    place.put(next_key(before), attempt.dump());
    place.put(all_key(before), nlohmann::json{{"over", true}}.dump());
  }
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
    } catch (const std::exception& fault) {
      if (!error.empty()) continue;
      error = fault.what();
      deadline = std::max(deadline, std::chrono::steady_clock::now() + kForOthers);
    }
  }
  place.put(all_key(attempt), nlohmann::json{{"numbers", numbers}, {"error", error}}.dump());
  if (!error.empty()) throw std::runtime_error(error);
  return attempt;
}

std::string follow(MeetingPlace& place, int rank, int ranks, MeetingPlace::Deadline deadline) {
  const std::uint64_t number = random_token();
  const auto own = static_cast<std::size_t>(rank);
  std::string attempt = take_name(place, kLatest, deadline);
  while (true) {
    place.put(came_key(attempt, rank), nlohmann::json{{"number", number}, {"ranks", ranks}}.dump());
    // Rank 0 speaks at its own deadline, and then has to look for the others.
    const auto answer = take_from(place, all_key(attempt), 0, "answer", deadline + 2 * kForOthers);
    const auto numbers = answer.value("numbers", std::vector<std::uint64_t>{});
    if (own < numbers.size() && numbers[own] == number) {
      const auto error = answer.at("error").get<std::string>();
      if (error.empty()) return attempt;
      throw std::runtime_error(error);
    }
    try {
      attempt = take_name(place, next_key(attempt), deadline);
    } catch (const std::runtime_error&) {
      if (own < numbers.size() || numbers.empty()) throw;
      throw std::runtime_error(
          fmt::format("rank 0 did not answer; its last group had {} ranks, and rank {} was told of {} (WORLD_SIZE)",
                      numbers.size(), rank, ranks));
    }
  }
}

}  // namespace

std::string new_attempt(MeetingPlace& place, int rank, int ranks, MeetingPlace::Deadline deadline) {
  return rank == 0 ? lead(place, ranks, deadline) : follow(place, rank, ranks, deadline);
}

}  // namespace dtrain
