#pragma once
// Lines of dtrain's own on a terminal: none is broken within a word.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::launcher {

// Break at blanks so that no line is longer than `width`; words longer than that stay whole, and so does what is
// between two `backquotes` (a command to copy) where it fits into a line. Pure.
std::vector<std::string> wrapped(std::string_view text, size_t width);

// The text as it is where it fits into `columns`, or where there is no terminal (0). Else in several lines, all but the
// first indented. Pure.
std::string terminal_line(std::string_view text, size_t columns);

// "dtrain: " and the text, for stderr: as the terminal there shows it best, if it is one.
std::string own_line(std::string_view text);
// The same for an error: its "dtrain:" is red where the terminal has colours.
std::string own_error(std::string_view text);

}  // namespace dtrain::launcher
