#include "launcher/front/front_channel.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>

namespace dtrain::launcher {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

FrontChannel::FrontChannel(asio::io_context& io, UniqueFd socket, const JobSpec& spec, Callbacks callbacks)
    : spec_(spec), callbacks_(std::move(callbacks)), front_(io, socket.release()), signals_(io) {}

void FrontChannel::watch() {
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

bool FrontChannel::asked_to_end() {
  using Op = FrontMessage::Op;
  const std::lock_guard lock(early_);
  while (const auto message = receive_from(front_.native_handle())) {
    to_end_ = to_end_ || message->op == Op::stop || message->op == Op::stop_orphan || message->op == Op::stop_again;
    asio::post(front_.get_executor(), [this, message = *message] { take(message); });
  }
  return to_end_ || front_gone();
}

bool FrontChannel::front_gone() {
  pollfd front{front_.native_handle(), 0, 0};
  return ::poll(&front, 1, 0) == 1 && (front.revents & POLLHUP) != 0;
}

void FrontChannel::suspended(int number) { send_to(front_.native_handle(), {FrontMessage::Op::suspended, number}); }

void FrontChannel::attached_stopped(pid_t pid, int signal) {
  const auto op = signal == SIGTSTP ? FrontMessage::Op::attached_stopped : FrontMessage::Op::attached_waits;
  send_to(front_.native_handle(), {op, pid});
}

void FrontChannel::watch_signals() {
  signals_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (ec) return;
    read_signals();
    watch_signals();
  });
}

// Signals reach the job through the front. A signal to the agent itself counts too, but only as a first request: with
// `pkill dtrain` front and agent both get one, and these are one request. Only the front tells of a second request. For
// the same reason the agent takes signals for the workers from the front alone.
void FrontChannel::read_signals() {
  signalfd_siginfo info;
  bool child_changed = false;
  // Each signal is there once, but more may come while these are read.
  for (int n = 0; n < NSIG && ::read(signals_.native_handle(), &info, sizeof info) == sizeof info; ++n) {
    const int signal = int(info.ssi_signo);
    if (signal == SIGCHLD)
      child_changed = true;
    else if (is_stop(signal) && requests_.count() == 0)
      stop(signal);
  }
  if (child_changed) callbacks_.child_changed();
}

void FrontChannel::watch_front() {
  front_.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (!ec) read_front();
  });
}

void FrontChannel::read_front() {
  if (const auto message = receive_from(front_.native_handle()))
    take(*message);
  else if (front_gone())  // else asked_to_end() was faster
    return callbacks_.lost();
  watch_front();
}

void FrontChannel::take(const FrontMessage& message) {
  if (message.op == FrontMessage::Op::suspend) {
    callbacks_.suspend(message.value);
  } else if (message.op == FrontMessage::Op::resume) {
    callbacks_.resume();
  } else if (message.op == FrontMessage::Op::stop || message.op == FrontMessage::Op::stop_orphan) {
    stop(message.value, message.op == FrontMessage::Op::stop_orphan);
  } else if (message.op == FrontMessage::Op::stop_again) {
    callbacks_.stop({message.value});
  } else {
    callbacks_.pass(message.value);
  }
}

void FrontChannel::stop(int signal, bool orphan) {
  if (requests_.take({signal}, std::chrono::steady_clock::now()) != StopMeaning::same)
    callbacks_.stop({signal, orphan});
}

bool FrontChannel::is_stop(int signal) const {
  return std::find(spec_.stop_signals.begin(), spec_.stop_signals.end(), signal) != spec_.stop_signals.end();
}

}  // namespace dtrain::launcher
