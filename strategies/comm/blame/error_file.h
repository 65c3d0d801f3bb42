#pragma once
// The error file that torch's @record writes (TORCHELASTIC_ERROR_FILE), for exceptions of C++. Pure.
#include <cstdint>
#include <string>

namespace dtrain {

// `message`: type and text of the exception, and when it came.
std::string uncaught_json(const std::string& message, std::int64_t unix_seconds);

}  // namespace dtrain
