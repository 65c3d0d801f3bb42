#include "rendezvous/base/result.h"

#include <cstring>

namespace dtrain {

Error system_error(const std::string& what, int errno_value) {
  return {ErrorKind::system, what + ": " + std::strerror(errno_value), errno_value};
}

}  // namespace dtrain
