#pragma once
// Texts made from the tables of flags and commands. Pure. No line is longer than `width` columns (40 to 80) unless a
// single word is; docs/cli.md has long lines.
#include <string>
#include <string_view>

#include "cli/flags.h"
#include "cli/layout.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

std::string short_help(std::size_t width = kWidest);  // bare `dtrain`, `dtrain --help`
// `dtrain run --help`: the flags needed most, on one screen; and --help=all.
std::string common_help(std::size_t width = kWidest, CalledAs called = CalledAs::dtrain);
std::string run_help(std::size_t width = kWidest, CalledAs called = CalledAs::dtrain);
std::string markdown_help();  // docs/cli.md
// `dtrain help FLAG`, `dtrain help COMMAND` or `dtrain help TOPIC`
Result<std::string> help_on(std::string_view word, std::size_t width = kWidest);

}  // namespace dtrain::cli
