#pragma once
// Lines of workers as reports show them. Pure.
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::launcher {

// A line of a worker, made harmless for a terminal (printable.h) and for the width of a page: at most 400 bytes and
// then how many more.
std::string report_line(std::string_view line);

// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

}  // namespace dtrain::launcher
