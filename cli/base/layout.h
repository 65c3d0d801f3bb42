#pragma once
// Lines of help for a terminal of some width: paragraphs, and lists with the text beside or below the names. Pure.
#include <string>
#include <string_view>

namespace dtrain::cli {

// Widths that help texts are made for: no line is longer unless a single word is.
inline constexpr std::size_t kNarrowest = 40;
inline constexpr std::size_t kWidest = 80;

// The width to use when COLUMNS says `columns` and the terminal has `terminal` columns (0: there is none). COLUMNS
// counts if it is a number above 0.
std::size_t help_width(std::string_view columns, std::size_t terminal);

// Broken at blanks, each line behind `indent` blanks.
std::string paragraph(std::string_view text, std::size_t width, std::size_t indent = 0);

// "  left      text": the text begins at `column` and goes on there; below the name if that is too long, or if `width`
// leaves less than three fifths for the text.
std::string entry(std::string_view left, std::string_view text, std::size_t column, std::size_t width);

// Laid out help with colours for a terminal: headings, and the names that stand before a text or are to be typed.
std::string painted(std::string_view help);

}  // namespace dtrain::cli
