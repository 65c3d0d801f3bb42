#pragma once
// What agent and guard say to each other over a SOCK_SEQPACKET pair: one fixed-size message a packet, with descriptors
// beside it. Both ends are forks of one binary, so there is no version and no byte order.
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/job/exit_status.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

enum class GuardOp : int32_t {
  // agent -> guard
  begin_round,     // a: number of spawns that follow
  spawn,           // local_rank, a: Session (spawn.h); fds: payload (argv and environment), stdin, stdout, stderr
                   // and, with JobSpec::keep_state, the memory of its state, with copy_state a second one
  signal_workers,  // a: signal, to the worker processes alone
  suspend,         // SIGSTOP to every process of the round; a: the number of the suspension
  resume,          // SIGCONT to every process of the round
  stop_groups,     // a: signal, to every worker and its process group (stop_turns.h)
  stop_rest,       // a: signal, to what else is left of the round
  kill,            // SIGKILL to every process of the round
  // guard -> agent
  ready,        // level pidns only: the namespace is set up
  started,      // local_rank, pid (0: read it from the pidfd passed beside: the guard lives in another pid namespace)
  not_started,  // local_rank, a: SpawnStep, b: errno
  exited,       // local_rank, a: si_code, b: si_status, after_stop
  suspended,    // a: the number; all processes of the round are stopped, or do not stop
  stopped,      // local_rank: the worker that has the terminal was stopped from there; a: by which signal
  rest_left,    // the workers are gone, something else of the round is left, and its turn to end has come
  empty,        // no process of the round is left
  failed,       // a: GuardNeed, b: errno; the guard ends, and with it the job
  fenced,       // the agent has let the fence pass (fence.h): every process of the round is being killed
};

// What a guard cannot do without.
enum class GuardNeed : int32_t { subreaper, death_signal, signals, events, waiting };

struct GuardMessage {
  GuardOp op{};
  int32_t local_rank = -1;
  int32_t a = 0;
  int32_t b = 0;
  pid_t pid = 0;
  int32_t after_stop = 0;  // the worker ended after the guard had told the workers to end
};

// How the worker ended, from an `exited` or `not_started`.
ExitStatus exit_status_of(const GuardMessage& message);

// "the guard cannot ...: Too many open files", from a `failed`.
std::string describe_failure(const GuardMessage& message);

inline constexpr size_t kMaxPassedFds = 6;

// Send one message with up to kMaxPassedFds descriptors. Returns 0, or errno (EAGAIN on a full non-blocking socket).
int send_guard_message(int socket, const GuardMessage& message, const int* fds = nullptr, size_t fd_count = 0);

struct ReceivedGuardMessage {
  GuardMessage message;
  std::array<UniqueFd, kMaxPassedFds> fds;
};

// Receive one message, without waiting. `closed`: the other side is gone. `again`: no message is there.
enum class Receive { message, again, closed };
Receive receive_guard_message(int socket, ReceivedGuardMessage& out);

// argv and environment of one worker in a memfd, which nobody changes after it is written, so that their size does not
// depend on socket buffers. The reader gets pointers into its own mapping, which must outlive them.
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
