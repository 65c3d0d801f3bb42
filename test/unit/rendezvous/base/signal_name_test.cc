#include "rendezvous/base/signal_name.h"

#include <csignal>
#include <cstring>
#include <string>

#include "test/support/catch.h"

namespace dtrain {

TEST_CASE("signals have the names that the C library gives them") {
  for (int signal = -1; signal <= SIGRTMAX + 1; ++signal) {
    const char* const here = signal_abbreviation(signal);
    const char* const theirs = ::sigabbrev_np(signal);
    CHECK(std::string(here == nullptr ? "none" : here) == std::string(theirs == nullptr ? "none" : theirs));
  }
}

}  // namespace dtrain
