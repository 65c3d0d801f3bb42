#pragma once
// How ranks answer each other through the store.
#include <fmt/format.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "strategies/comm/bootstrap/group_store.h"

namespace dtrain {

// What rank `from` puts under this key. Throws std::runtime_error, "rank 2 did not come (...)", if the rank puts
// nothing there by the deadline, or something that is no JSON.
inline nlohmann::json take_from(GroupStore& store, const std::string& key, int from, const char* did_not,
                                GroupStore::Deadline deadline) {
  try {
    return nlohmann::json::parse(store.take(key, deadline));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank {} did not {} ({})", from, did_not, error.what()));
  }
}

// Run `make`, which returns a result and an answer, and put the answer under this key. If `make` throws, the ranks that
// wait for the answer find the error there.
template <class Make>
auto answer_with(GroupStore& store, const std::string& key, Make make) {
  try {
    auto [result, answer] = make();
    store.put(key, answer.dump());
    return std::move(result);
  } catch (const std::exception& error) {
    store.put(key, nlohmann::json{{"error", error.what()}}.dump());
    throw;
  }
}

}  // namespace dtrain
