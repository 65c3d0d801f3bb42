#pragma once
// What the reader of data throws, beside ConfigError (errors.h).
#include <stdexcept>

namespace dtrain {

// A file cannot be read, or is not what the others are. what() is one line with the file and, where it is about one,
// the column.
struct DataError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace dtrain
