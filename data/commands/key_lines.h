#pragma once
// From the path of a key to its line in the file that the user wrote. Pure.
#include <nlohmann/json.hpp>
#include <string>

namespace dtrain::data {

// "dataset.steps[2].cast.x: no such column" -> "job.yaml:12: dataset.steps[2].cast.x: no such column". `lines`: the
// line of each path. The longest path that the message begins with counts; without one the message stays as it is.
std::string with_line(const std::string& message, const std::string& file, const nlohmann::json& lines);

}  // namespace dtrain::data
