#pragma once
// How one worker ended, and which exit code that gives dtrain.
#include <string>

namespace dtrain::launcher {

// The step of starting a worker that failed, with errno. The child itself reports those up to `exec`.
enum class SpawnStep {
  none,
  clone,
  session,
  cgroup,
  death_signal,
  affinity,
  stdio,
  state,
  working_directory,
  exec,
  watch
};

struct ExitStatus {
  enum class Kind { exited, signaled, not_started } kind = Kind::exited;
  int code = 0;                      // exited: 0..255; signaled: the signal number; not_started: errno
  bool core = false;                 // signaled: the kernel wrote a core dump
  SpawnStep step = SpawnStep::none;  // not_started: what failed

  static ExitStatus exited(int code) { return {Kind::exited, code, false, SpawnStep::none}; }
  static ExitStatus signaled(int signal, bool core) { return {Kind::signaled, signal, core, SpawnStep::none}; }
  static ExitStatus not_started(SpawnStep step, int error) { return {Kind::not_started, error, false, step}; }
  bool success() const { return kind == Kind::exited && code == 0; }
  bool operator==(const ExitStatus&) const = default;
};

// The exit code that dtrain returns when this worker is the first failure: its own code; 128+n for signal n; 127 and
// 126 for a program that was not found or could not be executed; 125 when dtrain itself could not start it.
int exit_code_of(const ExitStatus& status);

// The same as Python's subprocess has it, which torchrun prints: the code, or -n for signal n. A worker that was never
// started counts as 127, 126 or 1.
int python_exit_code(const ExitStatus& status);

// "exit code 3", "signal 11 (SIGSEGV), core dumped", "not started: exec: No such file or directory".
std::string describe(const ExitStatus& status);

// "SIGTERM" for 15; "signal 99" for a number without a name.
std::string signal_name(int signal);

// "exec", "session", ...: the word used in messages.
const char* step_name(SpawnStep step);

}  // namespace dtrain::launcher
