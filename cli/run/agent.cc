#include "cli/run/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "cli/base/fail.h"
#include "cli/base/version.h"
#include "cli/engines/sent_words.h"
#include "cli/machine/host.h"
#include "cli/machine/own_address.h"
#include "cli/resolve/resolve.h"
#include "cli/run/start_job.h"
#include "launcher/base/host_name.h"
#include "launcher/base/inherited.h"
#include "launcher/engine_wire/agent_wire.h"
#include "launcher/job/exit_codes.h"
#include "launcher/submit/relay.h"

namespace dtrain::cli {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kEnginePatience{180};  // with the engine, which waits for the other agents

class Orders {
 public:
  explicit Orders(UniqueFd fd) : fd_(std::move(fd)) {}

  // Nothing: the engine has gone, or is late, or says too much. `last`: what follows the line is for the front.
  std::optional<std::string> line(bool last) {
    const auto deadline = steady_clock::now() + kEnginePatience;
    std::string text;
    while (text.size() <= launcher::kLongestAgentLine) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
      pollfd ready{fd_.get(), POLLIN, 0};
      const int polled = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left));
      if (polled < 0 && errno == EINTR) continue;
      if (polled <= 0) return std::nullopt;
      char chunk[16384];
      const ssize_t got = ::read(fd_.get(), chunk, last ? 1 : sizeof chunk);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return std::nullopt;
      text.append(chunk, static_cast<std::size_t>(got));
      if (text.back() == '\n') return text.substr(0, text.size() - 1);
    }
    return std::nullopt;
  }
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

bool tell_engine(const std::string& line) { return std::printf("%s\n", line.c_str()) > 0 && std::fflush(stdout) == 0; }

launcher::AgentCard own_card() {
  launcher::AgentCard card{own_version(), launcher::kernel_hostname(), {}};
  for (const InterfaceAddress& each : reachable_addresses()) card.addresses.push_back(each.address);
  return card;
}

// What is the engine's, in place of this process's own.
Result<void> take_over(const launcher::AgentTask& task) {
  // A list of hosts in a variable of this host's login has done its work, too.
  for (const Flag& row : flags())
    if (places_job(row.id)) ::unsetenv(dtrain_variable(row).c_str());
  for (const auto& [name, value] : task.env)
    if (::setenv(name.c_str(), value.c_str(), 1) != 0) return system_error("setenv", errno);
  if (task.folder.empty() || ::chdir(task.folder.c_str()) == 0) {
    if (!task.folder.empty()) ::setenv("PWD", task.folder.c_str(), 1);
    return {};
  }
  return Error{ErrorKind::usage,
               fmt::format("the job's folder cannot be entered there: {}; start it in a folder that all hosts have",
                           system_error(task.folder, errno).message)};
}

CalledAs called_as(const std::string& name) {
  if (name == "torchrun") return CalledAs::torchrun;
  return name == "launch" ? CalledAs::launch : CalledAs::dtrain;
}

struct Prepared {
  RawOptions raw;
  Host host;
  Plan plan;
};

Result<Prepared> prepare(const launcher::AgentTask& task) {
  if (auto done = take_over(task); !done) return done.error();
  auto raw = parse(task.words, called_as(task.called));
  if (!raw) return raw.error();
  Host host = this_host();
  host.place = task.place;
  auto plan = resolve(*raw, host);
  if (!plan) return plan.error();
  if (plan->print_config != Plan::PrintConfig::no || plan->dry_run)
    return Error{ErrorKind::usage, "an agent starts its job: no --print-config and no --dry-run for hosts"};
  return Prepared{std::move(*raw), std::move(host), std::move(*plan)};
}

int no_engine() {
  return fail(Error{ErrorKind::usage,
                    "dtrain agent is for engines, which tell it by standard input what to do; to "
                    "start a job: dtrain run"});
}

}  // namespace

int agent_command() {
  launcher::fill_standard_descriptors();
  ::prctl(PR_SET_DUMPABLE, 0);  // it gets the token of the job
  Orders orders(UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)));
  const UniqueFd empty = launcher::empty_input();
  if (::isatty(STDIN_FILENO) == 1 || !empty || ::dup2(empty.get(), STDIN_FILENO) < 0) return no_engine();
  if (!tell_engine(launcher::card_line(own_card()))) return launcher::kExitOwnFailure;
  const auto line = orders.line(false);
  if (!line) return launcher::kExitOwnFailure;  // whoever could be told has gone
  const auto task = launcher::parse_agent_task(*line);
  auto prepared = task ? prepare(*task) : Result<Prepared>(task.error());
  if (!tell_engine(launcher::verdict_line(prepared ? Result<void>() : Result<void>(prepared.error()))) || !prepared)
    return launcher::kExitOwnFailure;
  if (orders.line(true) != launcher::kAgentGo) return launcher::kExitOwnFailure;
  prepared->plan.spec.orders = orders.fd();
  return start_job(prepared->raw, prepared->host, std::move(prepared->plan));
}

int relay_command() {
  launcher::fill_standard_descriptors();
  ::prctl(PR_SET_DUMPABLE, 0);  // it gets the secret of the link
  Orders orders(UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)));
  if (::isatty(STDIN_FILENO) == 1) return no_engine();
  const auto line = orders.line(true);
  if (!line) return no_engine();
  const auto order = launcher::parse_relay_order(*line);
  if (!order) return fail(order.error());
  const auto code = launcher::relay(*order, {"/proc/self/exe", "agent"});
  return code ? *code : fail(code.error());
}

}  // namespace dtrain::cli
