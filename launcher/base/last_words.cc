#include "launcher/base/last_words.h"

#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <string_view>

namespace dtrain::launcher {

void say_unless_stuck(const std::string& text) {
  const std::string line = "dtrain: " + text + "\n";
  pollfd fd{2, POLLOUT, 0};
  if (::poll(&fd, 1, 0) != 1 || (fd.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const auto n = ::write(2, line.data(), line.size());
}

std::string reason_of(const std::exception& e) {
  const std::string_view all = e.what();
  return std::string(all.substr(0, all.find(" [")));
}

void tell_of_uncaught_exceptions() {
  std::set_terminate([] {
    try {
      if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      say_unless_stuck(std::string("cannot go on: ") + reason_of(e) +
                       " (see `ulimit -n`, `ulimit -u` and `ulimit -v`)");
    } catch (...) {
      say_unless_stuck("cannot go on: an unknown exception");
    }
    std::abort();
  });
}

}  // namespace dtrain::launcher
