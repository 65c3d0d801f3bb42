#pragma once
// Texts made from the tables of flags and commands. Pure. No line is longer than `width` columns (40 to 80) unless a
// single word is; docs/cli.md has long lines.
#include <cstddef>
#include <string>
#include <string_view>

#include "cli/base/layout.h"
#include "cli/table/flags.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline constexpr std::size_t kFlagColumn = 27;  // where the one-line help of a flag begins

std::string short_help(std::size_t width = kWidest);  // bare `dtrain`, `dtrain --help`
// `dtrain run --help`: the flags needed most, on one screen; and --help=all.
std::string common_help(std::size_t width = kWidest);
std::string run_help(std::size_t width = kWidest);
// `torchrun --help` and `dtrain launch --help`: all flags.
std::string torchrun_help(std::size_t width = kWidest, CalledAs called = CalledAs::torchrun);
std::string markdown_help();  // docs/cli.md
// `dtrain help FLAG`, `dtrain help COMMAND` or `dtrain help TOPIC`
Result<std::string> help_on(std::string_view word, std::size_t width = kWidest);

}  // namespace dtrain::cli
