#pragma once
// Where the agent is that hosts a job.
#include <cstdint>
#include <string>
#include <vector>

namespace dtrain {

struct HostPlace {
  std::vector<std::string> addresses;  // numeric, tried in this order
  int port = 0;
  std::uint64_t term = 0;  // higher than that of every host before; 0: nobody follows
  bool operator==(const HostPlace&) const = default;
};

}  // namespace dtrain
