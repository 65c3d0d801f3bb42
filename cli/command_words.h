#pragma once
// The words after a command that has a few flags of its own: taken apart by its row in commands.cc. Pure.
#include <map>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The value of each flag that is there ("1" for a switch), by its name; the last one counts. Words that are no flags
// and belong to none are an error, and their text is not repeated: it may be a secret in the wrong place.
Result<std::map<std::string, std::string>> command_words(CommandId command, const std::vector<std::string>& words);

}  // namespace dtrain::cli
