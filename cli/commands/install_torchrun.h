#pragma once
// `dtrain install-torchrun`: gives dtrain its second name.
#include <string>
#include <vector>

namespace dtrain::cli {

// `dtrain install-torchrun [DIR]`: makes DIR/torchrun, a link to this dtrain; DIR is the folder of this dtrain if not
// given. Never replaces what is there. Exit code: 0, also where the link is there already; 2 if something else has the
// name, or DIR is no folder; 125 if the link cannot be made.
int install_torchrun_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
