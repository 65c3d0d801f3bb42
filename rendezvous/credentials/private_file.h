#pragma once
// Files with a secret in them.
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain {

// To read: a regular file of this user that nobody else may read or change (0600, 0400). Does not wait where a FIFO
// lies instead. Errors do not name the file.
Result<UniqueFd> open_private_file(const std::string& path);

}  // namespace dtrain
