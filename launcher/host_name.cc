#include "launcher/host_name.h"

#include <unistd.h>

namespace dtrain::launcher {

std::string short_hostname() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  const std::string full = name;
  return full.substr(0, full.find('.'));
}

}  // namespace dtrain::launcher
