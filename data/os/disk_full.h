#pragma once
// Whether the text of an error is about a disk, or a quota, that is full. Pure.
#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

namespace dtrain::data {

inline bool says_disk_full(const std::string& what) {
  return std::ranges::any_of(std::array{ENOSPC, EDQUOT},
                             [&](int error) { return what.find(std::generic_category().message(error)) != what.npos; });
}

}  // namespace dtrain::data
