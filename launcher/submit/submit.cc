#include "launcher/submit/submit.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <utility>

#include "launcher/base/inherited.h"
#include "launcher/front/end_requests.h"
#include "launcher/front/interrupt.h"
#include "launcher/submit/command_agents.h"
#include "launcher/submit/engine_shim.h"
#include "launcher/submit/linked_agents.h"
#include "launcher/submit/submitter.h"
#include "launcher/terminal/terminal_line.h"
#include "rendezvous/net/listen.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;

constexpr auto kPlacingTime = std::chrono::minutes(5);  // for an engine to find the nodes, or to say that it has none
constexpr auto kShimEnd = std::chrono::seconds(3);      // for its shim to take its leave

// Three descriptors a host. Returns the user's limit, which the commands keep.
rlimit raise_descriptors() {
  rlimit users{};
  ::getrlimit(RLIMIT_NOFILE, &users);
  rlimit raised = users;
  raised.rlim_cur = raised.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &raised);
  return users;
}

UniqueFd watch_signals(const SubmitSignals& spec) {
  sigset_t mask;
  ::sigemptyset(&mask);
  for (const int signal : spec.stop) ::sigaddset(&mask, signal);
  for (const int signal : spec.passed) ::sigaddset(&mask, signal);
  ::sigprocmask(SIG_BLOCK, &mask, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  return UniqueFd(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
}

// What this process has to be before it submits.
struct Prepared {
  rlimit descriptors{};
  UniqueFd signals;
};

Result<Prepared> prepare(SubmitSignals& signals) {
  fill_standard_descriptors();
  ::prctl(PR_SET_DUMPABLE, 0);  // the token of the job is in this process (docs/security.md)
  Prepared prepared;
  prepared.descriptors = raise_descriptors();
  signals.stop = not_ignored(signals.stop);
  signals.passed = not_ignored(signals.passed);
  prepared.signals = watch_signals(signals);
  if (!prepared.signals) return system_error("signals cannot be watched", errno);
  return prepared;
}

struct SubmitOutcome {
  Result<int> code;
  bool interrupted = false;
};

SubmitOutcome submit(asio::io_context& io, const SubmitSignals& signals, UniqueFd signal_fd, PlacementRequest request,
                     AgentEnds& agents) {
  Submitter submitter(io, signals, std::move(signal_fd), std::move(request), agents);
  Result<int> code = submitter.run();
  return {std::move(code), submitter.was_interrupted()};
}

Result<int> conclude(SubmitOutcome outcome) {
  if (outcome.interrupted && outcome.code && *outcome.code == 128 + SIGINT) die_of_interrupt();
  return std::move(outcome.code);
}

// ---- an engine ------------------------------------------------------------------------------------------------------

void say_now(const std::string& line) { ::dprintf(STDERR_FILENO, "%s\n", std::string(own_line(line)).c_str()); }

// The shim, until the nodes are known and then until it has ended.
class Engine {
 public:
  Engine(asio::io_context& io, rlimit descriptors, LinkedAgents& agents)
      : io_(io),
        agents_(agents),
        shim_(io, descriptors,
              {[this](ShimWord word) { said(std::move(word)); },
               [this](int status, const std::string& why) { ended(status, why); }}) {}

  // The nodes, or the signal that came before them; or why there are none.
  struct Placed {
    ShimPlaced by_engine{};
    int signal = 0;
  };
  Result<Placed> place(const EngineSpec& spec, int signal_fd) {
    if (auto done = shim_.start(spec.shim, spec.code, spec.nodes); !done) return done.error();
    asio::posix::stream_descriptor signals(io_, ::dup(signal_fd));
    std::optional<int> signal;
    await_signal(signals, spec.signals, signal);
    const auto deadline = SteadyClock::now() + kPlacingTime;
    while (!placed_ && !signal && io_.run_one_until(deadline) > 0) {
    }
    signals.cancel();
    io_.poll();
    if (signal) return Placed{{}, *signal};
    if (!placed_) return Error{ErrorKind::system, "the engine has found no nodes within 5 min"};
    if (!*placed_) return placed_->error();
    return Placed{std::move(**placed_)};
  }

  // The engine ends what a shim has started that is no more.
  void end() {
    ending_ = true;
    shim_.end();
    const auto deadline = SteadyClock::now() + (placed_ && *placed_ ? kShimEnd : std::chrono::seconds(0));
    while (shim_.runs() && io_.run_one_until(deadline) > 0) {
    }
    if (!shim_.runs()) return;
    shim_.kill();
    while (shim_.runs() && io_.run_one() > 0) {
    }
  }

 private:
  // One that ends the job. There are no workers yet for the others.
  static void await_signal(asio::posix::stream_descriptor& from, const SubmitSignals& spec, std::optional<int>& got) {
    from.async_wait(asio::posix::stream_descriptor::wait_read, [&](const boost::system::error_code& error) {
      if (error) return;
      signalfd_siginfo info{};
      while (!got && ::read(from.native_handle(), &info, sizeof info) == sizeof info)
        if (std::count(spec.stop.begin(), spec.stop.end(), static_cast<int>(info.ssi_signo)) != 0)
          got = static_cast<int>(info.ssi_signo);
      if (!got) await_signal(from, spec, got);
    });
  }
  void said(ShimWord word) {
    if (auto* placed = std::get_if<ShimPlaced>(&word)) {
      if (placed_) return;
      nodes_ = placed->nodes.size();
      placed_ = std::move(*placed);
    } else if (const auto* lost = std::get_if<ShimLost>(&word)) {
      agents_.lost(lost->agent, lost->why);
    } else {
      failed(std::get<Error>(word));
    }
  }

  void ended(int status, const std::string& why) {
    const std::string text =
        fmt::format("the process that knows the engine has {} {}{}", status < 0 ? "died of signal" : "ended with",
                    std::abs(status), why.empty() ? "" : ": " + why);
    failed({ErrorKind::system, text});
  }

  // Its agents end without it.
  void failed(const Error& error) {
    if (!placed_) {
      placed_ = error;
    } else if (*placed_ && !ending_) {
      for (int agent = 0; agent < static_cast<int>(nodes_); ++agent) agents_.lost(agent, error.message);
    }
  }

  asio::io_context& io_;
  LinkedAgents& agents_;
  std::optional<Result<ShimPlaced>> placed_{};
  std::size_t nodes_ = 0;
  bool ending_ = false;
  EngineShim shim_;
};

Result<SubmitOutcome> submit_by(Engine& engine, asio::io_context& io, EngineSpec& spec, Prepared& prepared,
                                LinkedAgents& agents) {
  auto placed = engine.place(spec, prepared.signals.get());
  if (!placed) return placed.error();
  if (placed->signal) return SubmitOutcome{128 + placed->signal, placed->signal == SIGINT};
  spec.request.named_by_cards = placed->by_engine.named_by_cards;
  spec.request.begins_late = placed->by_engine.begins_late;
  for (ShimNode& node : placed->by_engine.nodes) spec.request.hosts.push_back({std::move(node.host), node.workers, {}});
  spec.request.least = std::min(spec.request.least, static_cast<int>(spec.request.hosts.size()));
  return submit(io, spec.signals, std::move(prepared.signals), std::move(spec.request), agents);
}

}  // namespace

Result<int> run_on_hosts(HostsSpec spec) {
  auto prepared = prepare(spec.signals);
  if (!prepared) return prepared.error();
  asio::io_context io;
  std::vector<AgentCommand> commands;
  for (std::size_t i = 0; i < spec.commands.size(); ++i)
    commands.push_back({std::move(spec.commands[i]), !is_here(spec.request, i)});
  CommandAgents agents(io, std::move(commands), prepared->descriptors);
  return conclude(submit(io, spec.signals, std::move(prepared->signals), std::move(spec.request), agents));
}

Result<int> run_on_engine(EngineSpec spec) {
  auto prepared = prepare(spec.signals);
  if (!prepared) return prepared.error();
  auto secret = JobSecret::generate();
  if (!secret) return secret.error();
  auto listener = listen_at("::", 0);
  if (!listener) return listener.error();
  const auto port = port_of_socket(listener->get());
  if (!port) return port.error();
  RelayOrder& order = spec.nodes.order;
  order.port = *port;
  order.job = "submit";
  order.secret = secret->text();
  asio::io_context io;
  std::optional<Result<SubmitOutcome>> outcome;
  {
    LinkedAgents agents(io, {std::move(*listener), std::move(*secret), order.job, spec.nodes.most, say_now});
    Engine engine(io, prepared->descriptors, agents);
    outcome = submit_by(engine, io, spec, *prepared, agents);
    engine.end();
  }
  if (!*outcome) return outcome->error();
  return conclude(std::move(**outcome));
}

}  // namespace dtrain::launcher
