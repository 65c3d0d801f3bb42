#pragma once
// Ctrl-Z, `fg` and `bg`, as the user's shell expects them of a job: all of its processes stop and go on together. For
// the front, which is the process that the shell waits for and continues.
#include <sys/types.h>

#include <chrono>

#include "launcher/front/end_requests.h"
#include "launcher/front/front_message.h"
#include "launcher/front/front_terminal.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class JobControl {
 public:
  // All of it outlives this object. `agent`: the front's end of the agent's socket.
  JobControl(const UniqueFd& agent, FrontTerminal& terminal, const EndRequests& ends)
      : agent_(agent), terminal_(terminal), ends_(ends) {}

  // Ctrl-Z: the front got SIGTSTP. The workers stop first, then the front. Returns when the front has been continued.
  void stopped();
  // The front got SIGCONT: the job goes on.
  void continued();
  // What the agent says of the attached worker.
  void heard(const FrontMessage& message);

 private:
  using Time = std::chrono::steady_clock::time_point;

  void suspend(pid_t whom);
  void resume();
  void hear_agent(Time end, int suspension);

  const UniqueFd& agent_;
  FrontTerminal& terminal_;
  const EndRequests& ends_;
  int suspensions_ = 0;  // their count tells which suspension the agent answers
};

}  // namespace dtrain::launcher
