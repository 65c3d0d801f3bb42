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
#include "cli/base/print.h"
#include "cli/base/version.h"
#include "cli/engines/sent_words.h"
#include "cli/machine/file_facts.h"
#include "cli/machine/host.h"
#include "cli/machine/own_address.h"
#include "cli/resolve/resolve.h"
#include "cli/resolve/resolve_parts.h"
#include "cli/run/start_job.h"
#include "launcher/base/host_name.h"
#include "launcher/base/inherited.h"
#include "launcher/engine_wire/agent_wire.h"
#include "launcher/engine_wire/branch_wire.h"
#include "launcher/engine_wire/json_line.h"
#include "launcher/hosts/branch.h"
#include "launcher/job/exit_codes.h"
#include "launcher/ship/receive_ship.h"
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
      char chunk[16384];
      const ssize_t got = read_some(chunk, last ? 1 : sizeof chunk, deadline);
      if (got <= 0) return std::nullopt;
      text.append(chunk, static_cast<std::size_t>(got));
      if (text.back() == '\n') return text.substr(0, text.size() - 1);
    }
    return std::nullopt;
  }
  // Nothing: the engine has gone, or is late.
  std::optional<std::string> bytes(std::size_t count) {
    const auto deadline = steady_clock::now() + kEnginePatience;
    std::string text(count, '\0');
    for (std::size_t have = 0; have < count;) {
      const ssize_t got = read_some(text.data() + have, count - have, deadline);
      if (got <= 0) return std::nullopt;
      have += static_cast<std::size_t>(got);
    }
    return text;
  }
  int fd() const { return fd_.get(); }

 private:
  // 0 or less: there is nothing in time, or ever.
  ssize_t read_some(char* into, std::size_t most, steady_clock::time_point deadline) {
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
      pollfd ready{fd_.get(), POLLIN, 0};
      const int polled = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left));
      const ssize_t got = polled > 0 ? ::read(fd_.get(), into, most) : polled;
      if (got >= 0 || errno != EINTR) return got;
    }
  }

  UniqueFd fd_;
};

bool tell_engine(const std::string& line) { return std::printf("%s\n", line.c_str()) > 0 && std::fflush(stdout) == 0; }

launcher::AgentCard own_card() {
  launcher::AgentCard card{own_version(), launcher::kernel_hostname(), {}};
  for (const InterfaceAddress& each : reachable_addresses()) card.addresses.push_back(each.address);
  return card;
}

// What is the engine's, in place of this process's own.
Result<void> take_environment(const launcher::AgentTask& task) {
  // A list of hosts in a variable of this host's login has done its work, too.
  for (const Flag& row : flags())
    if (places_job(row.id)) ::unsetenv(dtrain_variable(row).c_str());
  for (const auto& [name, value] : task.env)
    if (::setenv(name.c_str(), value.c_str(), 1) != 0) return system_error("setenv", errno);
  return {};
}

Result<void> enter(const std::string& folder) {
  if (folder.empty() || ::chdir(folder.c_str()) == 0) {
    if (!folder.empty()) ::setenv("PWD", folder.c_str(), 1);
    return {};
  }
  return Error{ErrorKind::usage,
               fmt::format("the job's folder cannot be entered there: {}; start it in a folder that all hosts have, or "
                           "take the program along with --ship",
                           system_error(folder, errno).message)};
}

CalledAs called_as(const std::string& name) {
  if (name == "torchrun") return CalledAs::torchrun;
  return name == "launch" ? CalledAs::launch : CalledAs::dtrain;
}

struct Prepared {
  RawOptions raw;
  Host host;
  Plan plan;
  std::optional<launcher::KeptFolder> folder;  // where the workers work, if this host lacked files of the job
};

Result<std::optional<launcher::KeptFolder>> receive_files(const launcher::AgentTask& task, Orders& orders) {
  launcher::ShipTalk talk;
  talk.tell = tell_engine;
  talk.line = [&orders] { return orders.line(true); };
  talk.bytes = [&orders](std::size_t count) { return orders.bytes(count); };
  return launcher::receive_ship(task.ship, task.folder, talk);
}

Result<Prepared> prepare(const launcher::AgentTask& task, Orders& orders) {
  if (auto done = take_environment(task); !done) return done.error();
  auto shipped = receive_files(task, orders);
  if (!shipped) return shipped.error();
  if (auto done = enter(*shipped ? (*shipped)->path() : task.folder); !done) return done.error();
  auto raw = parse(task.words, called_as(task.called));
  if (!raw) return raw.error();
  take_origins(task.origins, *raw);
  Host host = this_host();
  host.place = task.place;
  auto plan = resolve(*raw, host);
  if (!plan) return plan.error();
  if (plan->print_config != Plan::PrintConfig::no || plan->dry_run)
    return Error{ErrorKind::usage, "an agent starts its job: no --print-config and no --dry-run for hosts"};
  return Prepared{std::move(*raw), std::move(host), std::move(*plan), std::move(*shipped)};
}

int no_engine() {
  return fail(Error{ErrorKind::usage,
                    "dtrain agent is for engines, which tell it by standard input what to do; to "
                    "start a job: dtrain run"});
}

}  // namespace

int agent_command() {
  ::prctl(PR_SET_DUMPABLE, 0);  // it gets the token of the job
  Orders orders(UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)));
  const UniqueFd empty = launcher::empty_input();
  if (::isatty(STDIN_FILENO) == 1 || !empty || ::dup2(empty.get(), STDIN_FILENO) < 0) return no_engine();
  if (!tell_engine(launcher::card_line(own_card()))) return launcher::kExitOwnFailure;
  const auto line = orders.line(false);
  if (!line) return launcher::kExitOwnFailure;  // whoever could be told has gone
  const auto branch = launcher::parse_branch_plan(*line);
  if (!branch) return fail(branch.error());
  if (*branch) {
    const auto code = launcher::run_branch(**branch, orders.fd(), own_version());
    return code ? *code : fail(code.error());
  }
  const auto task = launcher::parse_agent_task(*line);
  if (task && !task->looks_for.empty()) {
    const bool is_told = tell_engine(launcher::verdict_line(judge_build_folder(task->looks_for, false, file_facts)));
    if (is_told) orders.line(true);  // it ends with all others
    return is_told ? 0 : launcher::kExitOwnFailure;
  }
  auto prepared = task ? prepare(*task, orders) : Result<Prepared>(task.error());
  if (!tell_engine(launcher::verdict_line(prepared ? Result<void>() : Result<void>(prepared.error()))) || !prepared)
    return launcher::kExitOwnFailure;
  if (orders.line(true) != launcher::kAgentGo) return launcher::kExitOwnFailure;
  prepared->plan.spec.orders = orders.fd();
  return start_job(prepared->raw, prepared->host, std::move(prepared->plan));
}

int look_command(const std::string& folder) {
  const auto seen = judge_build_folder(folder, false, file_facts);
  if (seen) return 0;
  const char* node = std::getenv("SLURMD_NODENAME");
  const std::string name = node == nullptr ? launcher::short_hostname() : node;
  return print(fmt::format("{}{}: {}\n", launcher::kAgentMark, name, seen.error().message));
}

int relay_command() {
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
