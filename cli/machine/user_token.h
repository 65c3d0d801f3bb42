#pragma once
// The job's token as the user keeps it: where it is found, and `dtrain token`.
#include <string>
#include <vector>

#include "cli/host.h"
#include "rendezvous/job_secret.h"

namespace dtrain::cli {

// $XDG_CONFIG_HOME/dtrain/token, or ~/.config/dtrain/token; empty if neither variable is set.
std::string usual_token_file(const Host& host);

// Somebody has typed the token where a file's name belongs.
Error token_as_file();

// The token of this file; or, where none is named, of DTRAIN_TOKEN, DTRAIN_TOKEN_FILE or the usual file. `where`: which
// it was.
Result<JobSecret> find_token(const Host& host, std::string file, std::string* where = nullptr);

// `dtrain token [--new|--code|--join] [--file FILE]`: prints a fingerprint, never the token. A join code is shown on
// the terminal, and asked for there without showing it. Exit code: 0, 2 usage, 125 no file could
// be made.
int token_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
