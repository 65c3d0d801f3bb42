// See error_file.h.
#include "strategies/comm/blame/error_file.h"

#include <nlohmann/json.hpp>

namespace dtrain {

std::string uncaught_json(const std::string& message, std::int64_t unix_seconds) {
  constexpr std::size_t kLongest = 64 * 1024;
  nlohmann::ordered_json root;
  root["message"]["message"] = message.substr(0, kLongest);
  root["message"]["extraInfo"]["timestamp"] = std::to_string(unix_seconds);  // as @record has it
  return root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace dtrain
