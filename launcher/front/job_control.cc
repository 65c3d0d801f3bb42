#include "launcher/front/job_control.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>

#include "launcher/front/poll_time.h"

namespace dtrain::launcher {

namespace {

// How long the front waits for agent and guard to stop the workers before it stops itself.
constexpr auto kSuspendAnswer = std::chrono::seconds(2);
// For kill(): the whole process group of the caller.
constexpr pid_t kOwnGroup = 0;

sigset_t only(int signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  return set;
}

// Take a blocked signal that has come. False: it has not.
bool take_pending(int signal) {
  const sigset_t set = only(signal);
  const timespec at_once{};
  return ::sigtimedwait(&set, nullptr, &at_once) == signal;
}

// Let a blocked signal that has come act.
void let_act(int signal) {
  const sigset_t set = only(signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

bool is_stop_of_attached(const FrontMessage& m) {
  return m.op == FrontMessage::Op::attached_stopped || m.op == FrontMessage::Op::attached_waits;
}

}  // namespace

void JobControl::stopped() { suspend(::getpid()); }

// A job that has lent the terminal to a worker cannot go on in the background: the worker would change a terminal that
// is another job's, and an `fg` that does not continue the front would go unheard. A job that is to end must run.
void JobControl::continued() {
  resume();
  if (!terminal_.is_here() && !ends_.any() && !ends_.one_is_pending()) suspend(kOwnGroup);
}

void JobControl::heard(const FrontMessage& message) {
  if (!is_stop_of_attached(message)) return;
  terminal_.keep_for(message.value);
  // The worker wanted to read and has got the terminal since: the news is old.
  const bool may_read = message.op == FrontMessage::Op::attached_waits && terminal_.is_with(message.value);
  if (terminal_.is_given_to_us() || may_read) {
    resume();  // `fg` of a job that runs in the background continues nobody: the front finds out here
  } else if (!ends_.any()) {
    suspend(kOwnGroup);  // Ctrl-Z reached the worker's group alone, and the shell waits for all processes of ours
  }
}

// Stop the workers, then `whom`: the front, or the front's whole process group.
void JobControl::suspend(pid_t whom) {
  terminal_.put_aside();
  send_to(agent_.get(), {FrontMessage::Op::suspend, ++suspensions_});
  hear_agent(std::chrono::steady_clock::now() + kSuspendAnswer, suspensions_);
  // SIGTSTP and not SIGSTOP: the kernel discards SIGTSTP where there is no shell that could continue the front.
  ::kill(whom, SIGTSTP);
  // `kill %1` sends a request to end and SIGCONT. If both came meanwhile, our SIGTSTP has discarded the SIGCONT.
  if (ends_.one_is_pending()) ::kill(whom, SIGCONT);
  let_act(SIGTSTP);
  // Here the front has been continued. The SIGCONT is taken here: found later, it would undo a Ctrl-Z after it.
  if (take_pending(SIGCONT)) return continued();
  resume();  // the front could not be stopped: it is the init of a container, or has no shell
}

void JobControl::resume() {
  // What the agent has said up to now is of stops that the resumption undoes.
  if (terminal_.is_lent()) hear_agent(std::chrono::steady_clock::now(), 0);
  terminal_.hand_on();
  send_to(agent_.get(), {FrontMessage::Op::resume, 0});
}

// Read what the agent says until `end`, or until it answers this suspension. An answer to an earlier suspension may
// come late, and news of the attached worker in between.
void JobControl::hear_agent(Time end, int suspension) {
  pollfd fd{agent_.get(), POLLIN, 0};
  while (::poll(&fd, 1, milliseconds_until(end)) > 0) {
    const auto message = receive_from(agent_.get());
    if (!message) return;
    if (message->op == FrontMessage::Op::suspended && message->value == suspension) return;
    if (is_stop_of_attached(*message)) terminal_.keep_for(message->value);
  }
}

}  // namespace dtrain::launcher
