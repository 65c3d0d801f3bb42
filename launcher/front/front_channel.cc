#include "launcher/front_link.h"

#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <csignal>

namespace dtrain::launcher {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

FrontLink::FrontLink(asio::io_context& io, UniqueFd socket, const JobSpec& spec, Callbacks callbacks)
    : spec_(spec), callbacks_(std::move(callbacks)), front_(io, socket.release()), signals_(io) {}

void FrontLink::watch() {
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int s : spec_.stop_signals) ::sigaddset(&mask, s);
  for (const int s : spec_.passed_signals) ::sigaddset(&mask, s);
  ::sigaddset(&mask, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  const int fd = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) throw boost::system::system_error(errno, boost::system::system_category(), "signalfd");
  signals_.assign(fd);
  watch_signals();
  watch_front();
}

void FrontLink::attached_stopped(pid_t pid, int signal) {
  const auto op = signal == SIGTSTP ? FrontMessage::Op::attached_stopped : FrontMessage::Op::attached_waits;
  send_to(front_.native_handle(), {op, pid});
}

void FrontLink::watch_signals() {
  signals_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (ec) return;
    read_signals();
    watch_signals();
  });
}

// Signals reach the job through the front. One sent to the agent itself counts too, but only as a first request: with
// `pkill dtrain` both get it, and that is one request, not two. For the same reason what is to be passed on is taken
// from the front alone.
void FrontLink::read_signals() {
  signalfd_siginfo info;
  while (::read(signals_.native_handle(), &info, sizeof info) == sizeof info) {
    const int signal = int(info.ssi_signo);
    if (signal == SIGCHLD)
      callbacks_.child_changed();
    else if (is_stop(signal) && direct_stop_ == 0)
      callbacks_.stop(direct_stop_ = signal);
  }
}

void FrontLink::watch_front() {
  front_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (!ec) read_front();
  });
}

void FrontLink::read_front() {
  FrontMessage m;
  const ssize_t n = ::recv(front_.native_handle(), &m, sizeof m, MSG_DONTWAIT);
  if (n != ssize_t(sizeof m)) return callbacks_.lost();
  if (m.op == FrontMessage::Op::suspend) {
    callbacks_.to_everything(SIGSTOP);
    send_to(front_.native_handle(), {FrontMessage::Op::suspended, m.value});
  } else if (m.op == FrontMessage::Op::resume) {
    callbacks_.to_everything(SIGCONT);
  } else if (is_stop(m.value)) {
    stop(m.value);
  } else {
    callbacks_.pass(m.value);
  }
  watch_front();
}

void FrontLink::stop(int signal) {
  const bool the_same_by_the_other_way = direct_stop_ == signal;
  direct_stop_ = -1;  // the next one counts
  if (!the_same_by_the_other_way) callbacks_.stop(signal);
}

bool FrontLink::is_stop(int signal) const {
  return std::find(spec_.stop_signals.begin(), spec_.stop_signals.end(), signal) != spec_.stop_signals.end();
}

}  // namespace dtrain::launcher
