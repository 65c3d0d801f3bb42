#pragma once
// Words of others (a command line, a worker's output) in messages of ours: nothing in them steers a terminal. Pure.
#include <cstddef>
#include <string>
#include <string_view>

namespace dtrain {

// The first whole characters of a UTF-8 text, at most `longest` bytes.
std::string_view first_characters(std::string_view text, std::size_t longest);

// `text` on one line: control characters byte by byte as \xNN (a tab stays), cut after `longest` bytes with "...".
std::string printable(std::string_view text, std::size_t longest = 80);

}  // namespace dtrain
