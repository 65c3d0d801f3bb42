#pragma once
// The words after a command that has a few flags of its own: taken apart by its row in commands.cc. Pure.
#include <map>
#include <string>
#include <vector>

#include "cli/table/command_table.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// Whether the error about a word that belongs to no flag repeats it. It may be a secret in the wrong place.
enum class Unknown { hidden, repeated };

// The value of each flag that is there ("1" for a switch), by its name; the last one counts. Errors: words that are no
// flags and belong to none; a value that is missing or empty.
Result<std::map<std::string, std::string>> command_words(CommandId command, const std::vector<std::string>& words,
                                                         Unknown unknown = Unknown::hidden);

// Takes out of `words` those that are neither flags of this command nor their values, and returns them.
std::vector<std::string> take_plain_words(const Command& command, std::vector<std::string>& words);

}  // namespace dtrain::cli
