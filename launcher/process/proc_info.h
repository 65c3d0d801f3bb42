#pragma once
// Facts about single processes.
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace dtrain::launcher {

// The pid behind a pidfd, as seen from the caller's PID namespace; 0 if it is gone or not a pidfd.
pid_t pid_of_pidfd(int pidfd);

// What /proc/PID/stat shows of a process: its state (R, S, D, T, ...) and the CPU time of all its threads. Nothing: it
// is gone, or there is no /proc.
struct ProcessLook {
  char state = 0;
  std::chrono::milliseconds cpu{};
};
std::optional<ProcessLook> look_at_process(pid_t pid);

// "pid 123 (python3) survived SIGKILL: state D, waiting in nfs4_wait": for a process that does not die.
std::string describe_stuck_process(pid_t pid);

// Bytes of this process that are in memory; 0: unknown.
std::uint64_t resident_bytes();

// Wait until a child has ended and reap it, at most `limit`. False if it is still there.
bool wait_for_exit(pid_t child, std::chrono::milliseconds limit);

// `text` with everything but letters, digits, '.', '_' and '-' replaced by '_', at most 100 bytes.
std::string file_name_safe(const std::string& text);

}  // namespace dtrain::launcher
