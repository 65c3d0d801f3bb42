#pragma once
// Texts made from the flag table. Pure. No line is longer than 80 columns (docs/cli.md excepted).
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

std::string short_help();                             // bare `dtrain`, `dtrain --help`
std::string run_help();                               // `dtrain run --help`
std::string markdown_help();                          // docs/cli.md
Result<std::string> help_on(std::string_view topic);  // `dtrain help FLAG` or `dtrain help COMMAND`

}  // namespace dtrain::cli
