#pragma once
// Which TCP connection: its two ends, as its peer sees them.
#include <string>

namespace dtrain {

// Numeric addresses; an IPv4 one is written as such, whatever the family of the socket.
struct TcpEnds {
  std::string own;
  int own_port = 0;
  std::string other;
  int other_port = 0;
  bool operator==(const TcpEnds&) const = default;
};

}  // namespace dtrain
