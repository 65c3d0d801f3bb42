#pragma once
#include <string>

namespace dtrain::test {

// The text of the error that a call throws; `otherwise` if it throws none. Errors of another type come through.
template <class Error, class Call>
std::string error_of(const Call& call, const char* otherwise = "") {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return otherwise;
}

}  // namespace dtrain::test
