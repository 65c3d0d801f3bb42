#pragma once
// What agent and guard say to each other over a SOCK_SEQPACKET pair: one fixed-size message a packet, descriptors
// beside it. Both ends are forks of one binary, so there is no version and no byte order to care about.
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/exit_status.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

enum class GuardOp : int32_t {
  // agent -> guard
  begin_round,         // a: number of spawns that follow
  spawn,               // local_rank, a: Session; fds: payload (argv and environment), stdin, stdout, stderr
  signal_workers,      // a: signal, to the worker processes alone
  signal_containment,  // a: signal, to every process of the round
  kill,                // SIGKILL to every process of the round
  // guard -> agent
  ready,        // level pidns only: the namespace is set up
  started,      // local_rank, pid (0: read it from the pidfd passed beside: the guard lives in another pid namespace)
  not_started,  // local_rank, a: SpawnStep, b: errno
  exited,       // local_rank, a: si_code, b: si_status, after_stop
  stopped,      // local_rank: the worker that has the terminal was stopped from there; a: by which signal
  empty,        // no process of the round is left
  fenced,       // the agent has let the fence pass (fence.h): every process of the round is being killed
};

// Where a worker lives: in a session of its own, or in the user's, for a worker that has the terminal. `foreground`: it
// begins as the group that the terminal listens to; `background`: another job has the terminal at the moment.
enum class Session : int32_t { own, foreground, background };

struct GuardMessage {
  GuardOp op{};
  int32_t local_rank = -1;
  int32_t a = 0;
  int32_t b = 0;
  pid_t pid = 0;
  int32_t after_stop = 0;  // it ended after the guard had told the workers to end
};

// How the worker ended, from an `exited` or `not_started`.
ExitStatus exit_status_of(const GuardMessage& message);

inline constexpr size_t kMaxPassedFds = 4;

// Send one message with up to kMaxPassedFds descriptors. errno on failure (EAGAIN on a full non-blocking socket), else
// 0.
int send_guard_message(int socket, const GuardMessage& message, const int* fds = nullptr, size_t fd_count = 0);

struct ReceivedGuardMessage {
  GuardMessage message;
  std::array<UniqueFd, kMaxPassedFds> fds;
};

// Receive one message, without waiting. `closed`: the other side is gone. `again`: nothing there.
enum class Receive { message, again, closed };
Receive receive_guard_message(int socket, ReceivedGuardMessage& out);

// argv and environment of one worker in a sealed-by-convention memfd, so that their size does not depend on socket
// buffers. The reader gets pointers into its mapping; it must outlive them.
Result<UniqueFd> write_exec_payload(const std::vector<std::string>& argv, const std::vector<std::string>& env);

class ExecPayload {
 public:
  ExecPayload() = default;
  ~ExecPayload();
  ExecPayload(const ExecPayload&) = delete;
  ExecPayload& operator=(const ExecPayload&) = delete;
  // False if the descriptor does not hold a payload.
  bool map(int fd);
  char** argv() { return argv_.data(); }
  char** envp() { return envp_.data(); }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
  std::vector<char*> argv_;
  std::vector<char*> envp_;
};

}  // namespace dtrain::launcher
