#pragma once
// Values of a config as JSON. Pure.
#include <string>

#include "cli/config/config_tree.h"

namespace dtrain::cli {

// A word's type is that of YAML 1.1, with which Ludwig and Accelerate read: yes and off are bools too.
std::string json_text(const ConfigValue& value);

}  // namespace dtrain::cli
