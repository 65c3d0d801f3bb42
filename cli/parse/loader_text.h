#pragma once
// --loader: how the program's data loader reads, in the words of Ludwig's `backend.loader`. Pure.
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

// What workers find: one JSON object with the keys that were given, in the order of the alphabet and without blanks.
Result<std::string> loader_text(std::string_view json);

// Whether the loader has this key. `json`: its value.
Result<void> check_loader_key(std::string_view name, std::string_view json);

}  // namespace dtrain::cli
