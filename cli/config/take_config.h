#pragma once
// --config: the values of its file, below those of flags and environment. Pure: the host reads the file.
#include <string>
#include <vector>

#include "cli/machine/host.h"
#include "cli/parse/parse.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// If --config or DTRAIN_CONFIG names a file, `raw` gets what it says where neither a flag nor the environment says
// more. So all that reads `raw` or sends it to another node has it, and the file is only read here. Called as torchrun
// there is no --config. Returns lines to say once.
Result<std::vector<std::string>> take_config(RawOptions& raw, const Host& host);

}  // namespace dtrain::cli
