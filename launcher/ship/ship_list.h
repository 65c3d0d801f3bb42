#pragma once
// The files that a job takes along, as the host has them from which it is started.
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/engine_wire/ship_wire.h"

namespace dtrain::launcher {

struct ShipRequest {
  std::string folder;                     // in which the job is started
  std::vector<std::string> paths;         // files and folders below it
  std::uint64_t most_bytes = 0;           // of all files together
  std::vector<std::string> secrets = {};  // files that never go along
};

struct ShipList {
  std::vector<ShipFile> files;  // sorted by path
  std::uint64_t bytes = 0;
  int left_out = 0;  // hidden files and folders, and caches of Python
};

// A file or folder that is named may be a link. Of a folder, hidden files and Python's caches stay behind, and a link
// is followed to a file of the same folder only. Errors (usage) name the file.
Result<ShipList> list_ship_files(const ShipRequest& request);

// The bytes of a piece. Error: the file is not what it was.
Result<std::string> read_ship_piece(const std::string& folder, const ShipFile& file, const ShipPiece& piece);

}  // namespace dtrain::launcher
