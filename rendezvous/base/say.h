#pragma once
// How any part of an agent or a server tells its user one line. The process that owns the console makes one Say and
// hands it down.
#include <functional>
#include <string>

namespace dtrain {

using Say = std::function<void(const std::string& line)>;

}  // namespace dtrain
