#pragma once
// The bytes of a regular file, and their SHA-256.
#include <sys/stat.h>

#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

struct ShipContent {
  UniqueFd file;
  std::string path;
  struct stat facts {};
};

// Follows links. Does not wait where a FIFO lies.
Result<ShipContent> open_content(const std::string& path);

// From its first byte to its last. Error: it changes meanwhile, or `take` does not take its bytes.
Result<std::string> digest_of(const ShipContent& content,
                              const std::function<Result<void>(std::string_view bytes)>& take = {});

// To a file that somebody else may fill the disk of. `path`: for the error.
Result<void> write_content(int file, std::string_view bytes, const std::string& path);

}  // namespace dtrain::launcher
