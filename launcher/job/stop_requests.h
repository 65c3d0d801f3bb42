#pragma once
// Which stop signals are requests. One request to stop may arrive as several signals: `timeout` signals its child and
// then its child's group, a shell hands on the hang-up that the kernel sends as well, a wrapper passes on the Ctrl-C
// that its child has had from the terminal. A second request, which kills the workers now, is a thing of its own.
// docs/adr/0005-a-stop-is-one-request.md has the table of senders.
#include <chrono>
#include <csignal>
#include <optional>

#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

struct StopSignal {
  int signal = 0;
  int code = SI_USER;     // si_code; SI_KERNEL: a key of the terminal, or its hang-up
  bool by_death = false;  // the kernel sent it since our parent has died (PR_SET_PDEATHSIG)
  bool counted = false;   // whoever passes it on has found that it is a request of its own
};

enum class StopMeaning { first, again, same };

class StopRequests {
 public:
  // Signals that programs send for one request come within this time, also where a wrapper is slow to pass them on.
  static constexpr Duration kOneRequest = std::chrono::seconds(1);
  // Two keys on the terminal come from fingers, and nobody else repeats them.
  static constexpr Duration kOneKey = std::chrono::milliseconds(200);

  StopMeaning take(const StopSignal& signal, MonoTime now);
  // Requests so far.
  int count() const { return count_; }

 private:
  struct Counted {
    bool key;
    MonoTime at;
  };
  std::optional<Counted> last_;
  int count_ = 0;
};

}  // namespace dtrain::launcher
