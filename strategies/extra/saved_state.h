#pragma once
// The state of a sampler, a Plateau or a GradScaler as text: an object of its own in the `extra` of a checkpoint. Pure.
// Tested by test/unit/strategies/extra/saved_state_test.cc
#include <climits>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

namespace dtrain {

using StateJson = nlohmann::json;

// JSON has no infinity: such a number becomes a string. Not for NaN.
StateJson json_of_number(double number);

// `extra`, a JSON object or empty, with `state` under that key. Throws ConfigError if it is something else. `whose`:
// the class, for the error.
std::string with_state(const char* whose, const std::string& extra, const std::string& key, StateJson state);

// Reads what with_state() wrote. Each call throws ConfigError if the value is not there, or is none that it may be.
class SavedState {
 public:
  SavedState(const char* whose, const std::string& extra, const std::string& key);
  // Throws ConfigError if there is a value for which nobody has asked: it is another version's, or no state at all.
  void finish() const;

  const StateJson& value(const char* name);
  bool flag(const char* name);
  std::uint64_t whole(const char* name, std::uint64_t most);
  int count(const char* name) { return static_cast<int>(whole(name, INT_MAX)); }
  double number(const char* name, bool zero_too = false);  // finite and above 0
  std::optional<double> any_number(const char* name);      // nothing for null

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& wanted) const;

  std::string whose_, key_;
  StateJson state_{};
  std::set<std::string> seen_{};
};

}  // namespace dtrain
