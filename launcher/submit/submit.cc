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
#include "launcher/hosts/branched_agents.h"
#include "launcher/hosts/command_agents.h"
#include "launcher/submit/engine_shim.h"
#include "launcher/submit/linked_agents.h"
#include "launcher/submit/round_server.h"
#include "launcher/submit/submitter.h"
#include "launcher/terminal/unwaiting_line.h"
#include "rendezvous/net/listen.h"

namespace dtrain::launcher {
namespace {

namespace asio = boost::asio;

constexpr auto kPlacingTime = std::chrono::minutes(5);  // for an engine to find the nodes, or to say that it has none
constexpr auto kShimEnd = std::chrono::seconds(3);      // for its shim to take its leave

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
  ::prctl(PR_SET_DUMPABLE, 0);  // the token of the job is in this process (docs/security.md)
  Prepared prepared;
  prepared.descriptors = raise_descriptors();
  signals.stop = not_ignored(signals.stop);
  signals.passed = not_ignored(signals.passed);
  prepared.signals = watch_signals(signals);
  if (!prepared.signals) return system_error("signals cannot be watched", errno);
  return prepared;
}

struct Submitted {
  Result<int> code;
  bool interrupted = false;
};

Submitted submit(asio::io_context& io, const SubmitSignals& signals, UniqueFd signal_fd, PlacementRequest request,
                 AgentEnds& agents, const std::function<void(Submitter&)>& prepared = {}) {
  Submitter submitter(io, signals, std::move(signal_fd), std::move(request), agents);
  if (prepared) prepared(submitter);
  Result<int> code = submitter.run();
  return {std::move(code), submitter.was_interrupted()};
}

Result<int> conclude(Submitted outcome) {
  if (outcome.interrupted && outcome.code && *outcome.code == 128 + SIGINT) die_of_interrupt();
  return std::move(outcome.code);
}

// ---- an engine ------------------------------------------------------------------------------------------------------

// Of a job that grows: all nodes that ever come.
constexpr int kMostAgents = 65536;

// The shim, until the nodes are known and then until it has ended.
class Engine {
 public:
  // `agents`: null, where none will be started.
  Engine(asio::io_context& io, rlimit descriptors, LinkedAgents* agents)
      : io_(io),
        agents_(agents),
        shim_(io, descriptors,
              {[this](ShimWord word) { said(std::move(word)); },
               [this](int status, const std::string& why) { ended(status, why); }}) {
    if (agents_ != nullptr) agents_->on_vacant = [this](int agent) { shim_.say(vacant_line(agent)); };
  }

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

  // Nodes that have come since, and those that come yet.
  void on_joined(std::function<void(const ShimNode&)> take) {
    take_ = std::move(take);
    if (!take_) return;
    for (const ShimNode& node : std::exchange(early_, {})) take_(node);
  }
  // Its agents end without it.
  void failed(const Error& error) {
    if (!placed_) {
      placed_ = error;
    } else if (*placed_ && !ending_ && agents_ != nullptr) {
      for (int agent = 0; agent < static_cast<int>(nodes_); ++agent) agents_->lost(agent, error.message);
    }
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
    } else if (const auto* joined = std::get_if<ShimJoined>(&word)) {
      if (!placed_ || !*placed_) return;
      if (static_cast<std::size_t>(joined->agent) != nodes_ || joined->agent >= kMostAgents)
        return failed({ErrorKind::system,
                       fmt::format("the engine's shim has node {} join after {} others", joined->agent, nodes_)});
      ++nodes_;
      if (take_) return take_(joined->node);
      early_.push_back(joined->node);
    } else if (const auto* lost = std::get_if<ShimLost>(&word)) {
      if (agents_ != nullptr) agents_->lost(lost->agent, lost->why);
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

  asio::io_context& io_;
  LinkedAgents* agents_;
  std::optional<Result<ShimPlaced>> placed_{};
  std::size_t nodes_ = 0;  // that the shim has told of
  std::function<void(const ShimNode&)> take_{};
  std::vector<ShimNode> early_{};  // until there is somebody to take them
  bool ending_ = false;
  EngineShim shim_;
};

Result<Submitted> submit_by(Engine& engine, asio::io_context& io, EngineSpec& spec, Prepared& prepared,
                            LinkedAgents& agents) {
  auto placed = engine.place(spec, prepared.signals.get());
  if (!placed) return placed.error();
  if (placed->signal) return Submitted{128 + placed->signal, placed->signal == SIGINT};
  spec.request.named_by_cards = placed->by_engine.named_by_cards;
  spec.request.begins_late = placed->by_engine.begins_late;
  for (ShimNode& node : placed->by_engine.nodes) spec.request.hosts.push_back({std::move(node.host), node.workers, {}});
  const int placed_nodes = static_cast<int>(spec.request.hosts.size());
  spec.request.least = spec.request.elastic ? std::min(spec.request.least, placed_nodes) : placed_nodes;
  return submit(io, spec.signals, std::move(prepared.signals), std::move(spec.request), agents,
                [&](Submitter& submitter) {
                  engine.on_joined([&](const ShimNode& node) { submitter.join({node.host, node.workers, {}}); });
                });
}

}  // namespace

Result<int> run_on_hosts(HostsSpec spec) {
  auto prepared = prepare(spec.signals);
  if (!prepared) return prepared.error();
  asio::io_context io;
  std::vector<AgentCommand> commands;
  for (std::size_t i = 0; i < spec.commands.size(); ++i)
    commands.push_back({std::move(spec.commands[i]), !is_here(spec.request, i)});
  std::unique_ptr<AgentEnds> agents;
  if (spec.request.through.empty()) {
    agents = std::make_unique<CommandAgents>(io, std::move(commands), prepared->descriptors);
  } else {
    auto branched = std::make_unique<BranchedAgents>(io, commands, spec.request.fanout, spec.request.version,
                                                     prepared->descriptors);
    if (auto done = branched->check_plans(); !done) return done.error();
    agents = std::move(branched);
  }
  return conclude(submit(io, spec.signals, std::move(prepared->signals), std::move(spec.request), *agents));
}

Result<EngineLook> look_at_engine(EngineSpec spec) {
  auto prepared = prepare(spec.signals);
  if (!prepared) return prepared.error();
  spec.nodes.looks = true;
  asio::io_context io;
  Engine engine(io, prepared->descriptors, nullptr);
  auto placed = engine.place(spec, prepared->signals.get());
  engine.end();
  if (!placed) return placed.error();
  return EngineLook{std::move(placed->by_engine), placed->signal};
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
  std::unique_ptr<RoundServer> rounds;
  if (spec.request.grows) {
    const auto typed = static_cast<std::uint16_t>(std::atoi(spec.request.port.c_str()));
    auto server = RoundServer::start(*spec.credential, typed);
    if (!server) return server.error();
    rounds = std::move(*server);
    spec.request.port = std::to_string(rounds->port());
  }
  RelayOrder& order = spec.nodes.order;
  order.port = *port;
  order.job = "submit";
  order.secret = secret->text();
  asio::io_context io;
  std::optional<Result<Submitted>> outcome;
  {
    LinkedAgents agents(io, {std::move(*listener), std::move(*secret), order.job,
                             spec.request.grows ? kMostAgents : spec.nodes.most, say_unwaiting});
    Engine engine(io, prepared->descriptors, &agents);
    if (rounds)
      rounds->watch(io, [&engine] { engine.failed({ErrorKind::system, "the process that hosts the job has ended"}); });
    outcome = submit_by(engine, io, spec, *prepared, agents);
    engine.on_joined({});
    engine.end();
    rounds.reset();  // it is watched by `io`
  }
  if (!*outcome) return outcome->error();
  return conclude(std::move(**outcome));
}

}  // namespace dtrain::launcher
