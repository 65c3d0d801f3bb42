#include "launcher/process/attached_terminal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace dtrain::launcher {

namespace {

constexpr int kTerminal = AttachedTerminal::kDescriptor;

// A process in the background may change the terminal only while it does not listen to SIGTTOU.
class WithoutTtou {
 public:
  WithoutTtou() {
    sigset_t ttou;
    ::sigemptyset(&ttou);
    ::sigaddset(&ttou, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &ttou, &before_);
  }
  ~WithoutTtou() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  WithoutTtou(const WithoutTtou&) = delete;
  WithoutTtou& operator=(const WithoutTtou&) = delete;

 private:
  sigset_t before_;
};

bool lives(pid_t group) { return ::kill(-group, 0) == 0 || errno == EPERM; }

Result<UniqueFd> open_for_writing() {
  const bool both = (::fcntl(kTerminal, F_GETFL) & O_ACCMODE) == O_RDWR;
  UniqueFd fd(both ? ::fcntl(kTerminal, F_DUPFD_CLOEXEC, 3) : ::open("/dev/tty", O_RDWR | O_CLOEXEC));
  if (!fd) return system_error("cannot open the terminal for the attached worker", errno);
  return fd;
}

}  // namespace

TerminalUse standard_input_use(pid_t group) {
  if (::isatty(kTerminal) == 0) return TerminalUse::none;
  const pid_t foreground = ::tcgetpgrp(kTerminal);
  if (foreground < 0) return TerminalUse::foreign;
  return foreground == group ? TerminalUse::foreground : TerminalUse::background;
}

AttachedTerminal::AttachedTerminal() : owner_(::getpgrp()), first_modes_(modes()) {}

pid_t AttachedTerminal::foreground() const { return ::tcgetpgrp(kTerminal); }

bool AttachedTerminal::lend(pid_t group) const {
  const WithoutTtou quiet;
  return ::tcsetpgrp(kTerminal, group) == 0;
}

bool AttachedTerminal::take_back(pid_t from) const {
  const pid_t group = foreground();
  if (group < 0) return false;
  if (group != owner_ && group != from && lives(group)) return false;
  if (group != owner_ && !lend(owner_)) return false;
  set_modes(first_modes_);
  return true;
}

termios AttachedTerminal::modes() const {
  termios now{};
  ::tcgetattr(kTerminal, &now);
  return now;
}

// At once: waiting for output to drain could wait for ever, behind a Ctrl-S.
void AttachedTerminal::set_modes(const termios& modes) const {
  const WithoutTtou quiet;
  ::tcsetattr(kTerminal, TCSANOW, &modes);
}

Result<StreamEnds> AttachedTerminal::ends_for_worker() const {
  auto out = open_for_writing();
  if (!out) return out.error();
  auto err = open_for_writing();
  if (!err) return err.error();
  return StreamEnds{std::move(*out), std::move(*err)};
}

}  // namespace dtrain::launcher
