#pragma once
// The job's token as the user keeps it: where it is found.
#include <string>

#include "cli/machine/host.h"
#include "rendezvous/base/result.h"
#include "rendezvous/credentials/job_secret.h"

namespace dtrain::cli {

// $XDG_CONFIG_HOME/dtrain/token, or ~/.config/dtrain/token; empty if neither variable is set.
std::string usual_token_file(const Host& host);

// Somebody has typed the token where a file's name belongs.
Error token_as_file();

// The token of this file; or, where none is named, of DTRAIN_TOKEN, DTRAIN_TOKEN_FILE or the usual file. `where`: which
// it was.
Result<JobSecret> find_token(const Host& host, std::string file, std::string* where = nullptr);

}  // namespace dtrain::cli
