#pragma once
// The value of --strategy: a word, JSON, or the name of a file of JSON.
#include <functional>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

using ReadText = std::function<Result<std::string>(const std::string& path)>;

// The text that workers get: of a file, what it has, in one line. `read` is called for a value with a dot or a slash.
// Errors: the file cannot be read, or a worker would refuse what it has.
Result<std::string> strategy_text(const std::string& value, const ReadText& read);

}  // namespace dtrain::cli
