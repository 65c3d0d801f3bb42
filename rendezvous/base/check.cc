#include "rendezvous/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace dtrain {

void check_failed(const char* file, int line, const char* expression, const char* why) {
  std::fprintf(stderr, "dtrain: bug at %s:%d: %s does not hold (%s)\n", file, line, expression, why);
  std::abort();
}

}  // namespace dtrain
