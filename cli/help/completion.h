#pragma once
// Completions for shells, made from the tables of flags and commands. Pure. The scripts stand alone: they start no
// process, and offer nothing that this version does not do.
#include <string>
#include <string_view>
#include <vector>

#include "cli/table/flags.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// The script for `bash`, `zsh` or `fish`, for both names of the program; else a usage error, of its own for no name.
Result<std::string> completion_script(std::string_view shell);

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

// What may stand where a flag's value is expected.
enum class ValueKind { none, words, folder, file, signals, other };
ValueKind kind_of(const Flag& flag);

// The flags to offer: those that do something in this version.
std::vector<const Flag*> offered_flags();
// "--nproc", "--nproc-per-node", "-t".
std::vector<std::string> names_of(const Flag& flag);
// Names for --signals-to-handle and its like.
std::string_view signal_words();

// `words` with `between` between them.
std::string joined(const std::vector<std::string>& words, std::string_view between);

}  // namespace dtrain::cli
