#pragma once
// `dtrain token`: makes and shows the job's token.
#include <string>
#include <vector>

namespace dtrain::cli {

// `dtrain token [--new|--code|--join] [--file FILE]`: prints a fingerprint, never the token. A join code is shown on
// the terminal, and asked for there without showing it. Exit code: 0, 2 usage, 125 no file could
// be made.
int token_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
