#pragma once
// $-templates as in Python's string.Template.safe_substitute, which torchrun uses for worker arguments and prefixes.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::launcher {

// What becomes of `$$`: Python makes it `$`; text that is somebody else's (a shell command, say) keeps it.
enum class DoubleDollar { collapse, keep };

// Replace `$name` and `${name}` by the value of `name` in `fields`. A name that is not in `fields`, an
// unfinished `${`, and a `$` before anything else stay as they are. Names are [A-Za-z_][A-Za-z0-9_]*, case-sensitive,
// and taken as long as possible: `$rankfile` is not `$rank`.
std::string substitute(std::string_view text, const std::vector<std::pair<std::string, std::string>>& fields,
                       DoubleDollar double_dollar = DoubleDollar::collapse);

}  // namespace dtrain::launcher
