#pragma once
// $-templates as in Python's string.Template.safe_substitute, which torchrun uses for worker arguments and prefixes.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtrain::launcher {

// Replace `$name` and `${name}` by the value of `name` in `fields`, and `$$` by `$`. A name that is not in `fields`, an
// unfinished `${`, and a `$` before anything else stay as they are. Names are [A-Za-z_][A-Za-z0-9_]*, case-sensitive,
// and taken as long as possible: `$rankfile` is not `$rank`.
std::string substitute(std::string_view text, const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace dtrain::launcher
