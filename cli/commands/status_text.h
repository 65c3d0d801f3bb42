#pragma once
// What an agent, or a standing server, has answered to `dtrain status`, for people. Pure.
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dtrain::cli {

bool is_of_server(const nlohmann::ordered_json& answer);

// Of a server, jobs that there was no room for in its answer.
int unlisted_jobs(const nlohmann::ordered_json& answer);

// Several lines. What is not there, or is of another kind than expected, is left out.
std::string status_text(const nlohmann::ordered_json& answer);

}  // namespace dtrain::cli
