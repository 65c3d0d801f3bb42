#pragma once
// A count for people: "1 worker", "2 workers", "3 processes".
#include <concepts>
#include <string>
#include <string_view>

namespace dtrain {

// `one`: the noun in its singular.
std::string counted(std::integral auto count, std::string_view one) {
  const std::string_view ending = count == 1 ? "" : one.ends_with('s') ? "es" : "s";
  return std::to_string(count).append(" ").append(one).append(ending);
}

}  // namespace dtrain
