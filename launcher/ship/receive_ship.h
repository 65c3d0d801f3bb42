#pragma once
// An agent gets the files of its job that its host lacks.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/engine_wire/ship_wire.h"
#include "launcher/ship/kept_folder.h"

namespace dtrain::launcher {

// To and from whoever has submitted the job. All wait with a deadline.
struct ShipTalk {
  std::function<bool(const std::string& line)> tell;
  std::function<std::optional<std::string>()> line;
  std::function<std::optional<std::string>(std::size_t count)> bytes;
};

// A folder with all of the files. Nothing: they are all in `folder` here. Forks: call with one thread.
Result<std::optional<KeptFolder>> receive_ship(const std::vector<ShipFile>& files, const std::string& folder,
                                               const ShipTalk& talk);

}  // namespace dtrain::launcher
