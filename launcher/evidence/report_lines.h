#pragma once
// Lines of workers as reports show them. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::launcher {

// A line of a worker, made harmless for a terminal (printable.h) and for the width of a page: at most 400 bytes and
// then how many more.
std::string report_line(std::string_view line);

// A text on one line, harmless for a terminal: reasons from other nodes, names of hosts, paths.
std::string plain_line(std::string_view text);
// The first line of a text, without its end.
std::string first_line(std::string_view text);

// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace dtrain::launcher
