#pragma once
// What an agent has answered to `dtrain status`, for people. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dtrain::cli {

// Several lines. What is not there, or is of another kind than expected, is left out.
std::string status_text(const nlohmann::ordered_json& answer);

}  // namespace dtrain::cli
