#pragma once
// The front: the process that the user's shell knows. It forks the agent, hands signals on to it, and is the agent's
// parent, so the kernel tells it when the agent dies or is stopped: no lease has to tick for that. It is the last
// subreaper: if agent and guard die together, what the workers left falls to the front, which kills it.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "launcher/attached_terminal.h"
#include "launcher/fence.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// One packet between front and agent.
struct FrontMessage {
  enum class Op : int32_t {
    signal,            // front -> agent: this signal arrived
    suspend,           // front -> agent: Ctrl-Z; stop the workers and answer `suspended` with the same value
    suspended,         // agent -> front
    resume,            // front -> agent: continued
    attached_stopped,  // agent -> front: the worker that has the terminal was stopped from there; its pid
    attached_waits,    // agent -> front: it was stopped as it was not in the foreground, and may be by now; its pid
  } op{};
  int32_t value = 0;  // the signal, a pid, or the number of the suspension
};

void send_to(int socket, const FrontMessage& message);

// What the front must know to clean up after an agent that died; the agent writes it, in shared memory.
struct FrontNotes {
  pid_t guard = 0;
  char cgroup_folder[1024] = {};
  char temporary_folder[1024] = {};  // of the logs, see LogTree::remove_if_empty()
  char status_socket[128] = {};      // status_folder.h
  bool interrupted = false;          // SIGINT ended the job
  Fence fence;                       // for the guard
};

struct FrontSide {
  UniqueFd socket;  // SOCK_SEQPACKET, end-of-file when the front is gone
  FrontNotes* notes = nullptr;
  const AttachedTerminal* terminal = nullptr;  // only with --attach
};

struct FrontSignals {
  std::vector<int> stop;    // end the job
  std::vector<int> passed;  // go to the workers
  // An agent that SIGSTOP has stopped, and nobody has continued in this time, is killed.
  std::chrono::nanoseconds stopped_lease = std::chrono::seconds(3);
};

// Fork the agent and be the front until it has ended and nothing is left; `agent_main` runs in the child and returns
// its exit code. Returns that code, or 125 when the agent died of a signal. After an interrupted job it does not return
// but dies of SIGINT, as shells want it. `terminal`: only with --attach.
int run_front(const FrontSignals& signals, const AttachedTerminal* terminal,
              int (*agent_main)(FrontSide side, void* context), void* context);

}  // namespace dtrain::launcher
