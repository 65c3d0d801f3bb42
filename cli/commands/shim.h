#pragma once
// `dtrain shim`: a command for which torchrun is dtrain, whoever starts it. docs/shim.md, docs/adr/0524.
#include <string>
#include <vector>

namespace dtrain::cli {

// `dtrain shim COMMAND...`: becomes COMMAND, with PATH and PYTHONPATH that begin with folders of dtrain's. They are in
// $XDG_CACHE_HOME/dtrain or ~/.cache/dtrain, and stay there. Returns only with an error's exit code: 2 without a
// command, 127 if it is not found, 126 if it cannot be executed, 125 if the folder cannot be made.
int shim_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
