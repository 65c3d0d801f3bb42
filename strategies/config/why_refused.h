#pragma once
// For the command line: whether a worker would take a config. Pure.
#include <optional>
#include <string>

#include "dtrain/training_config.h"

namespace dtrain::config {

// What is wrong with the text, without "dtrain: strategy: " before it. Nothing: parse_config() takes it.
std::optional<std::string> why_refused(const std::string& text, const JobSize& job);

}  // namespace dtrain::config
