#pragma once
// The JSON schema of a config file, for editors. Pure.
#include <string>

namespace dtrain::cli {

// Made of the table of flags and that of the other keys.
std::string config_schema();

}  // namespace dtrain::cli
