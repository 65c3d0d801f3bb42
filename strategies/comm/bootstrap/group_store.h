#pragma once
// The store, as far as the ranks of a group need it in order to meet.
#include <chrono>
#include <string>

namespace dtrain {

// Where the ranks of a group find each other before they can reach each other. Keys are the group's own.
class GroupStore {
 public:
  virtual ~GroupStore() = default;
  virtual void put(const std::string& key, const std::string& value) = 0;
  using Deadline = std::chrono::steady_clock::time_point;
  // Wait for the key, and return its value. Throws std::runtime_error with a short reason at the deadline.
  virtual std::string take(const std::string& key, Deadline deadline) = 0;
  // Put `value` there if the key holds nothing, and return what the key holds. It may not wake those that wait for the
  // key.
  virtual std::string first(const std::string& key, const std::string& value) = 0;
};

}  // namespace dtrain
