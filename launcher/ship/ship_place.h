#pragma once
// Files in a folder that is this process's alone, below it whatever their names are.
#include <string>
#include <string_view>

#include "launcher/engine_wire/ship_wire.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// A new file, for its owner only; folders on the way are made. Links are not followed, and nothing is overwritten.
Result<UniqueFd> make_ship_file(int folder, const ShipFile& file);

// Whether this is the file, at a path of this host: the same bytes, and executable if the file is.
bool is_ship_file(const std::string& path, const ShipFile& file);

// The bytes of a file of this host into one of make_ship_file(). Error: it is not that file any more.
Result<void> copy_ship_file(const std::string& path, const ShipFile& file, int into);

}  // namespace dtrain::launcher
