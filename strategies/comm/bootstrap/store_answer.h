#pragma once
// What a rank says to others that wait for it, in the store.
#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "strategies/comm/peers.h"

namespace dtrain {

// What rank `from` puts under this key. Throws std::runtime_error, "rank 2 did not come (...)", where it puts nothing,
// or no JSON, by the deadline.
inline nlohmann::json take_from(MeetingPlace& place, const std::string& key, int from, const char* did_not,
                                MeetingPlace::Deadline deadline) {
  try {
    return nlohmann::json::parse(place.take(key, deadline));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank {} did not {} ({})", from, did_not, error.what()));
  }
}

// Run `make`, which returns a result and the answer, and put the answer under this key, or its error, for whoever waits
// for it.
template <class Make>
auto answer_with(MeetingPlace& place, const std::string& key, Make make) {
  try {
    auto [result, answer] = make();
    place.put(key, answer.dump());
    return std::move(result);
  } catch (const std::exception& error) {
    place.put(key, nlohmann::json{{"error", error.what()}}.dump());
    throw;
  }
}

}  // namespace dtrain
