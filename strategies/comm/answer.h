#pragma once
// What a rank says to others that wait for it, in the store.
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "strategies/comm/peers.h"

namespace dtrain {

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
