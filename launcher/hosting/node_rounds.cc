#include "launcher/node_rounds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/exit_codes.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/listen.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr auto kProgress = std::chrono::seconds(10);
constexpr auto kAnswer = std::chrono::milliseconds(500);

std::string describe(const msg::Waiting& w) {
  if (w.spare && !w.reason.empty()) return "the others go on without this node for a while: " + printable(w.reason);
  if (w.spare) return "the job has all its nodes; this one is a spare";
  const std::string names = w.names.empty() ? "" : ", " + printable(w.names);
  if (w.nodes < w.min_nodes)
    return fmt::format("{}/{} nodes{}{}{}", w.nodes, w.min_nodes, w.reason.empty() ? "" : ", for ", w.reason, names);
  return fmt::format("{} node{}, up to {} more may come{}", w.nodes, w.nodes == 1 ? "" : "s", w.max_nodes - w.nodes,
                     names);
}

}  // namespace

NodeRounds::NodeRounds(asio::io_context& io, const JobSpec& spec, Callbacks callbacks)
    : spec_(spec), callbacks_(std::move(callbacks)), io_(io), progress_(io), ask_until_(io), fence_(io) {}

Result<void> NodeRounds::open() {
  if (!spec_.nodes.several()) return spec_.nodes.port == 0 ? Result<void>() : serve_alone();
  joining_ = std::make_unique<RoundJoining>(
      io_, spec_,
      RoundJoining::Callbacks{[this](const RoundMessage& m) { received(m); },
                              [this](const std::string& text, MonoTime until) { show(text, until); },
                              [this](const Verdict& verdict, std::optional<Duration> grace) {
                                if (std::exchange(over_, true)) return;
                                progress_.cancel();
                                callbacks_.feed(event::JobEnded{verdict, grace});
                              },
                              [this](const std::string& reason, Duration grace) { host_lost(reason, grace); },
                              callbacks_.say});
  return joining_->open();
}

Result<void> NodeRounds::serve_alone() {
  StoreHost::Options options;
  options.address = spec_.nodes.address;
  options.port = spec_.nodes.port;
  return start_store(std::move(options));
}

// For the workers of this user.
Result<void> NodeRounds::start_store(StoreHost::Options options) {
  options.allowed_uid = ::geteuid();
  auto store = StoreHost::start(std::move(options));
  if (!store) return store.error();
  store_ = std::move(*store);
  return {};
}

// ---- rounds ---------------------------------------------------------------------------------------------------------

void NodeRounds::received(const RoundMessage& message) {
  if (over_) return;
  heard_ = true;
  if (const auto* facts = std::get_if<msg::Facts>(&message)) return answer(facts->job);
  if (const auto* waiting = std::get_if<msg::Waiting>(&message)) {
    show_waiting(*waiting);
  } else if (const auto* open = std::get_if<msg::Open>(&message)) {
    progress_.cancel();
    waiting_text_.clear();
    place_ = open->place;
    in_round_ = true;
    keep_fence();
    callbacks_.feed(event::RoundOpened{place_.round, place_.restart_count});
  } else if (const auto* stop = std::get_if<msg::Stop>(&message)) {
    callbacks_.feed(event::RoundStopped{stop->signal, stop->reason});
  } else if (const auto* end = std::get_if<msg::End>(&message)) {
    over_ = true;
    progress_.cancel();
    drop_fence();  // nobody goes on
    callbacks_.feed(event::JobEnded{end->verdict});
  }
}

// The store of the round is the old host's, and an edge of it goes with the workers.
void NodeRounds::host_lost(const std::string& reason, Duration grace) {
  if (over_) return;
  callbacks_.feed(event::HostLost{reason, grace});
  if (over_ || in_round_) return;
  store_.reset();  // should it be an edge of the old host's
  joining_->join_again();
}

// More often than the host is pinged. When the host is lost the last time stands, until there are no workers any more.
void NodeRounds::keep_fence() {
  if (!spec_.nodes.across_hosts) return;
  const auto at = joining_->fenced_at();
  if (at || joining_->hosting() != nullptr) callbacks_.fence(at);
  fence_.expires_after(spec_.nodes.pulse.ping_every() / 2);
  fence_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec && in_round_ && !over_) keep_fence();
  });
}

void NodeRounds::drop_fence() {
  fence_.cancel();
  callbacks_.fence(std::nullopt);
}

void NodeRounds::show_waiting(const msg::Waiting& waiting) {
  std::optional<MonoTime> until;
  if (waiting.left_ms >= 0) until = clock_.now() + std::chrono::milliseconds(waiting.left_ms);
  show(describe(waiting), until);
}

void NodeRounds::show(const std::string& text, std::optional<MonoTime> until) {
  waiting_until_ = until;
  if (text == waiting_text_) return;
  waiting_text_ = text;
  repeat_waiting();
}

void NodeRounds::repeat_waiting() {
  const auto left = waiting_until_ ? std::max(Duration{}, Duration(*waiting_until_ - clock_.now())) : Duration{};
  if (!spec_.quiet)
    callbacks_.progress(
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
  if (spec_.nodes.several()) return begin_with_others(std::move(assignment));
  // A new round must not see keys of the last one, so it gets a store of its own, up before the first worker.
  if (store_ && spec_.nodes.port != 0) {
    store_->renew();
  } else {
    store_.reset();
    if (auto started = start_store({}); !started) return started.error();
  }
  assignment.world_size = assignment.role_world_size = spec_.nproc_per_node;
  assignment.master_addr = spec_.nodes.master_addr;
  assignment.master_port = store_->port();
  return assignment;
}

Result<Assignment> NodeRounds::begin_with_others(Assignment assignment) {
  assignment.node_rank = place_.node_rank;
  assignment.nnodes = place_.nodes;
  assignment.base_rank = place_.base_rank;
  assignment.world_size = place_.world_size;
  assignment.base_role_rank = place_.base_role_rank;
  assignment.role_world_size = place_.role_world_size;
  assignment.master_addr = place_.master_addr;
  assignment.master_port = uint16_t(place_.master_port);
  if (!spec_.nodes.across_hosts) return assignment;
  assignment.rank0_addr = place_.master_addr;
  if (spec_.nodes.real_master && !joining_->at_server()) {
    // By the way that this agent has come, so that it is asked who they are.
    if (joining_->hosting() == nullptr) assignment.master_addr = joining_->host_address();
    return assignment;
  }
  // The workers meet at the store through the agent of their own host.
  assignment.master_addr = "127.0.0.1";
  if (RoundHosting* hosting = joining_->hosting()) {
    assignment.master_port = hosting->store().port();
    return assignment;
  }
  if (auto started = start_edge(); !started) return started.error();
  store_->begin_round(static_cast<std::uint64_t>(assignment.round));
  assignment.master_port = store_->port();
  return assignment;
}

// The store that this node's workers see: the host's, over a link of each round.
Result<void> NodeRounds::start_edge() {
  if (store_) return {};
  StoreHost::Options options;
  options.remote.emplace();
  options.remote->address = joining_->host_address();
  options.remote->port = joining_->host_port();
  if (joining_->credential())
    options.remote->secure = [credential = *joining_->credential(), job = spec_.run_id](std::uint64_t round) {
      return TlsSession::client(credential, {LinkRole::store, round, job});
    };
  options.remote->lost = [this](std::uint64_t, const std::string& reason) {
    asio::post(io_, [this, reason] {
      if (!over_) callbacks_.say(reason);
    });
  };
  return start_store(std::move(options));
}

void NodeRounds::report(const GroupAction& action) {
  if (!joining_) return;
  if (const auto* failed = std::get_if<action::ReportFailure>(&action)) {
    joining_->send(msg::Failed{failed->round, failed->local_rank,
                               fmt::format("rank {} (local rank {}): {}", place_.base_rank + failed->local_rank,
                                           failed->local_rank, describe(failed->status)),
                               exit_code_of(failed->status), failed->status.kind == ExitStatus::Kind::not_started});
  } else if (const auto* over = std::get_if<action::ReportOver>(&action)) {
    // Nobody is left here who could miss the store; the host may go on to the next round.
    if (store_) store_->renew();
    in_round_ = false;
    drop_fence();
    if (!joining_->hostless()) return joining_->send(msg::Over{over->round, over->ok});
    store_.reset();
    joining_->join_again();
  } else if (const auto* leaving = std::get_if<action::ReportLeaving>(&action)) {
    joining_->leave(msg::Leaving{leaving->signal, leaving->running});
  }
}

// ---- for `dtrain status` --------------------------------------------------------------------------------------------

void NodeRounds::ask(FactsTaker taker) {
  if (!joining_ || !heard_ || over_) return taker(std::nullopt);
  askers_.push_back(std::move(taker));
  if (askers_.size() > 1) return;  // the answer is on its way
  joining_->send(msg::Ask{});
  ask_until_.expires_after(kAnswer);
  ask_until_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) answer(std::nullopt);
  });
}

void NodeRounds::answer(const std::optional<JobFacts>& facts) {
  ask_until_.cancel();
  for (const FactsTaker& taker : std::exchange(askers_, {})) taker(facts);
}

void NodeRounds::fill(AgentFacts& facts) const {
  const StoreHost* store = joining_ && joining_->hosting() ? &joining_->hosting()->store() : store_.get();
  if (store != nullptr) facts.store = store->stats();
  if (!joining_) return;
  facts.hosts = joining_->hosting() != nullptr;
  facts.endpoint = joining_->endpoint();
  facts.waiting = waiting_text_;
}

void NodeRounds::close(const std::optional<Outcome>& outcome) {
  over_ = true;
  progress_.cancel();
  fence_.cancel();
  answer(std::nullopt);
  if (joining_) {
    const std::string why = outcome ? outcome->reason : "it was given up";
    const bool stopped = outcome && outcome->stop_signal != 0;
    const bool died = !outcome || outcome->cause == StopCause::guard_lost;  // by a process that was killed here
    joining_->close({stopped ? JobEnd::stopped : JobEnd::lost, stopped ? 128 + outcome->stop_signal : kExitOwnFailure,
                     -1, fmt::format("the agent that hosts the job (pid {}) left: {}", ::getpid(), why)},
                    died);
  }
  store_.reset();
}

}  // namespace dtrain::launcher
