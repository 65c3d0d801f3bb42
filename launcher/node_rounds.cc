#include "launcher/node_rounds.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <limits>

#include "launcher/exit_codes.h"
#include "launcher/host_name.h"
#include "rendezvous/listen.h"
#include "rendezvous/round_wire.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr auto kFirstRetry = std::chrono::milliseconds(10);
constexpr auto kLongestRetry = std::chrono::milliseconds(100);
constexpr int kMostTurnedAway = 12;
constexpr auto kProgress = std::chrono::seconds(10);
constexpr auto kFarewell = std::chrono::seconds(1);

std::string random_id() {
  std::uint64_t words[2] = {};
  // Of 16 bytes the kernel never gives a part.
  if (::getrandom(words, sizeof words, 0) != ssize_t(sizeof words)) words[0] = std::uint64_t(::getpid());
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

std::string describe(const msg::Waiting& w) {
  if (w.spare) return "the job has all its nodes; this one is a spare";
  if (w.nodes < w.min_nodes) return fmt::format("{}/{} nodes", w.nodes, w.min_nodes);
  return fmt::format("{} node{}, up to {} more may come", w.nodes, w.nodes == 1 ? "" : "s", w.max_nodes - w.nodes);
}

}  // namespace

NodeRounds::NodeRounds(asio::io_context& io, const JobSpec& spec, Callbacks callbacks)
    : io_(io),
      spec_(spec),
      callbacks_(std::move(callbacks)),
      port_(spec.nodes.port),
      link_(io, {[this](const RoundMessage& m) { received(m); },
                 [this](bool joined, const std::string& why) { link_lost(joined, why); }}),
      retry_(io),
      progress_(io) {}

std::string NodeRounds::endpoint() const { return address_text(spec_.nodes.address, port_); }

// ---- the port -------------------------------------------------------------------------------------------------------

Result<void> NodeRounds::open() {
  if (!spec_.nodes.several()) return spec_.nodes.port == 0 ? Result<void>() : serve_alone();
  agent_id_ = random_id();
  give_up_at_ = clock_.now() + spec_.nodes.join_timeout;
  if (spec_.nodes.node_rank == 0) {
    const auto hosting = serve_rounds();
    if (!hosting) return hosting.error();
  }
  join();
  return {};
}

Result<void> NodeRounds::serve_alone() {
  StoreHost::Options options;
  options.address = spec_.nodes.address;
  options.port = spec_.nodes.port;
  options.allowed_uid = ::geteuid();
  auto store = StoreHost::start(std::move(options));
  if (!store) return store.error();
  store_ = std::move(*store);
  return {};
}

// False: somebody else has the port.
Result<bool> NodeRounds::serve_rounds() {
  const bool anyone = spec_.nodes.node_rank < 0;  // may be the host
  auto listener = (anyone ? try_listen_at : listen_at)(spec_.nodes.address, port_);
  if (!listener && anyone && listener.error().errno_value == EADDRINUSE) return false;
  if (!listener) return listener.error();
  if (port_ == 0) {
    const auto port = port_of_socket(listener->get());
    if (!port) return port.error();
    port_ = *port;
    if (!spec_.quiet) callbacks_.say("nodes meet at " + endpoint());
  }
  RoundSettings settings;
  settings.job = spec_.run_id;
  settings.host_agent = agent_id_;
  settings.fixed_ranks = spec_.nodes.node_rank >= 0;
  settings.min_nodes = spec_.nodes.min;
  settings.max_nodes = spec_.nodes.max;
  settings.max_restarts = spec_.max_restarts;
  settings.master_addr = spec_.nodes.master_addr;
  settings.master_port = port_;
  settings.join_timeout = spec_.nodes.join_timeout;
  settings.last_call_timeout = spec_.nodes.last_call_timeout;
  host_ = std::make_unique<RoundHost>(io_, std::move(settings), [this] { store_->renew(); });
  StoreHost::Options options;
  options.allowed_uid = ::geteuid();
  options.adopt_byte = kRoundGreeting.front();
  options.adopt = [this](UniqueFd socket, std::string received) {
    asio::post(io_, [this, fd = std::move(socket), bytes = std::move(received)]() mutable {
      if (host_) host_->adopt(std::move(fd), bytes);
    });
  };
  auto store = StoreHost::start(std::move(*listener), std::move(options));
  if (!store) return store.error();
  store_ = std::move(*store);
  return true;
}

// ---- joining --------------------------------------------------------------------------------------------------------

NodeInfo NodeRounds::own_info() const {
  NodeInfo info;
  info.job = spec_.run_id;
  info.agent_id = agent_id_;
  info.host = short_hostname();
  info.pid = ::getpid();
  info.role = spec_.role;
  info.workers = spec_.nproc_per_node;
  info.wanted_rank = spec_.nodes.node_rank;
  info.min_nodes = spec_.nodes.min;
  info.max_nodes = spec_.nodes.max;
  info.max_restarts = spec_.max_restarts;
  const auto stop = std::max(spec_.shutdown_timeout, spec_.failure_grace) + spec_.kill_timeout;
  info.stop_ms = int(std::min<std::int64_t>(stop.count(), std::numeric_limits<int>::max()));
  return info;
}

void NodeRounds::join() {
  retry_after_ = kFirstRetry;
  try_to_join();
}

// Whoever finds the port free is the host; the others meet it there.
void NodeRounds::try_to_join() {
  if (!host_ && spec_.nodes.node_rank < 0) {
    const auto hosting = serve_rounds();
    if (!hosting) return give_up(JobEnd::refused, kExitOwnFailure, hosting.error().message);
  }
  const auto connected = link_.connect(spec_.nodes.address, port_, own_info());
  if (!connected) try_again_later();
}

void NodeRounds::try_again_later() {
  if (clock_.now() >= give_up_at_)
    return give_up(JobEnd::timeout, kExitTimeLimit,
                   fmt::format("nobody has opened the job at {} within {:g} s (--rdzv-conf {})", endpoint(),
                               std::chrono::duration<double>(spec_.nodes.join_timeout).count(),
                               spec_.nodes.node_rank < 0 ? "join_timeout" : "timeout"));
  if (waiting_text_.empty()) {
    waiting_text_ = "nobody at " + endpoint() + " yet";
    waiting_until_ = give_up_at_;
    repeat_waiting();
  }
  retry_.expires_at(std::min(clock_.now() + retry_after_, give_up_at_));
  retry_after_ = std::min<Duration>(2 * retry_after_, kLongestRetry);
  retry_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec && !over_) try_to_join();
  });
}

void NodeRounds::link_lost(bool joined, const std::string& reason) {
  if (over_) return;
  if (joined)
    return give_up(JobEnd::lost, kExitOwnFailure,
                   fmt::format("the agent that hosts the job at {} is gone", endpoint()));
  // It may just be leaving; but who does so again and again does not want us.
  if (reason.empty() && ++turned_away_ < kMostTurnedAway) return try_again_later();
  const std::string holder = port_holder(port_);
  give_up(JobEnd::refused, kExitOwnFailure,
          fmt::format("{} is not this job's: {}{}; choose another port", endpoint(),
                      holder.empty() ? "" : "it is " + holder + ", ",
                      reason.empty() ? "it closes the connection (another user's?)" : reason));
}

void NodeRounds::give_up(JobEnd how, int exit_code, const std::string& reason) {
  if (over_) return;
  over_ = true;
  progress_.cancel();
  // Never from within a call of the agent's.
  asio::post(io_, [this, how, exit_code, reason] { callbacks_.feed(event::JobEnded{{how, exit_code, -1, reason}}); });
}

// ---- rounds ---------------------------------------------------------------------------------------------------------

void NodeRounds::received(const RoundMessage& message) {
  if (over_) return;
  if (const auto* waiting = std::get_if<msg::Waiting>(&message)) {
    show_waiting(*waiting);
  } else if (const auto* open = std::get_if<msg::Open>(&message)) {
    progress_.cancel();
    waiting_text_.clear();
    place_ = open->place;
    callbacks_.feed(event::RoundOpened{place_.round, place_.restart_count});
  } else if (const auto* stop = std::get_if<msg::Stop>(&message)) {
    callbacks_.feed(event::RoundStopped{stop->signal, stop->reason});
  } else if (const auto* end = std::get_if<msg::End>(&message)) {
    over_ = true;
    progress_.cancel();
    callbacks_.feed(event::JobEnded{end->verdict});
  } else if (const auto* refused = std::get_if<msg::Refused>(&message)) {
    link_.close();
    if (refused->try_again) return try_again_later();
    give_up(JobEnd::refused, kExitOwnFailure, fmt::format("{}: {}", endpoint(), refused->reason));
  }
}

void NodeRounds::show_waiting(const msg::Waiting& waiting) {
  const std::string text = describe(waiting);
  waiting_until_.reset();
  if (waiting.left_ms >= 0) waiting_until_ = clock_.now() + std::chrono::milliseconds(waiting.left_ms);
  if (text == waiting_text_) return;
  waiting_text_ = text;
  repeat_waiting();
}

void NodeRounds::repeat_waiting() {
  const auto left = waiting_until_ ? std::max(Duration{}, Duration(*waiting_until_ - clock_.now())) : Duration{};
  if (!spec_.quiet)
    callbacks_.say(
        fmt::format("waiting: {}{}", waiting_text_,
                    waiting_until_ ? fmt::format(", {:.0f} s left", std::chrono::duration<double>(left).count()) : ""));
  if (!waiting_until_) return progress_.cancel(), void();
  progress_.expires_after(kProgress);
  progress_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec && !over_ && !waiting_text_.empty()) repeat_waiting();
  });
}

Result<Assignment> NodeRounds::begin(const action::StartRound& round) {
  Assignment assignment;
  assignment.round = round.round;
  assignment.restart_count = round.restart_count;
  if (spec_.nodes.several()) {
    assignment.node_rank = place_.node_rank;
    assignment.nnodes = place_.nodes;
    assignment.base_rank = place_.base_rank;
    assignment.world_size = place_.world_size;
    assignment.base_role_rank = place_.base_role_rank;
    assignment.role_world_size = place_.role_world_size;
    assignment.master_addr = place_.master_addr;
    assignment.master_port = uint16_t(place_.master_port);
    return assignment;
  }
  // A new round must not see keys of the last one, so it gets a store of its own, up before the first worker.
  if (store_ && spec_.nodes.port != 0) {
    store_->renew();
  } else {
    store_.reset();
    StoreHost::Options options;
    options.allowed_uid = ::geteuid();
    auto store = StoreHost::start(std::move(options));
    if (!store) return store.error();
    store_ = std::move(*store);
  }
  assignment.world_size = assignment.role_world_size = spec_.nproc_per_node;
  assignment.master_addr = spec_.nodes.master_addr;
  assignment.master_port = store_->port();
  return assignment;
}

void NodeRounds::report(const GroupAction& action) {
  if (const auto* failed = std::get_if<action::ReportFailure>(&action)) {
    link_.send(msg::Failed{failed->round, failed->local_rank,
                           fmt::format("rank {} (local rank {}): {}", place_.base_rank + failed->local_rank,
                                       failed->local_rank, describe(failed->status)),
                           exit_code_of(failed->status), failed->status.kind == ExitStatus::Kind::not_started});
  } else if (const auto* over = std::get_if<action::ReportOver>(&action)) {
    link_.send(msg::Over{over->round, over->ok});
  } else if (const auto* leaving = std::get_if<action::ReportLeaving>(&action)) {
    link_.send(msg::Leaving{leaving->signal});
  }
}

void NodeRounds::close(const std::optional<Outcome>& outcome) {
  over_ = true;
  link_.close();
  retry_.cancel();
  progress_.cancel();
  if (host_) {
    const std::string why = outcome ? outcome->reason : "it was given up";
    const bool stopped = outcome && outcome->stop_signal != 0;
    host_->close({stopped ? JobEnd::stopped : JobEnd::lost, stopped ? 128 + outcome->stop_signal : kExitOwnFailure, -1,
                  fmt::format("the agent that hosts the job (pid {}) left: {}", ::getpid(), why)});
    host_->on_empty = [this] { io_.stop(); };
    io_.restart();
    if (!host_->empty()) io_.run_for(kFarewell);
  }
  store_.reset();
  host_.reset();
}

}  // namespace dtrain::launcher
