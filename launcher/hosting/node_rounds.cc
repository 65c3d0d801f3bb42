#include "launcher/hosting/node_rounds.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/finding/endpoint_finder.h"
#include "launcher/job/exit_codes.h"
#include "rendezvous/base/counted.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/net/overflow_uid.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

std::string describe(const msg::Waiting& w) {
  if (w.spare && !w.reason.empty()) return "the others go on without this node for a while: " + printable(w.reason);
  if (w.spare) return "the job has all its nodes; this one is a spare";
  const std::string names = w.names.empty() ? "" : ", " + printable(w.names);
  if (w.nodes < w.min_nodes)
    return fmt::format("{}/{} nodes{}{}{}", w.nodes, w.min_nodes, w.reason.empty() ? "" : ", for ", w.reason, names);
  return fmt::format("{}, up to {} more may come{}", counted(w.nodes, "node"), w.max_nodes - w.nodes, names);
}

}  // namespace

NodeRounds::NodeRounds(asio::io_context& io, const JobSpec& spec, const Say& say, Callbacks callbacks)
    : spec_(spec),
      say_(say),
      callbacks_(std::move(callbacks)),
      io_(io),
      waiting_(io, spec.quiet ? Say([](const std::string&) {}) : callbacks_.progress),
      question_(io),
      fence_(io) {}

Result<void> NodeRounds::open() {
  if (!spec_.quiet && uid_of_anybody() == ::geteuid())
    say_(
        fmt::format("user {} may stand for any user in this user namespace: dtrain lets connections in by the "
                    "processes that hold them",
                    ::geteuid()));
  if (!spec_.nodes.several()) return spec_.nodes.port == 0 ? Result<void>() : serve_alone();
  joining_ = std::make_unique<RoundJoining>(
      io_, spec_, say_,
      RoundJoining::Callbacks{[this](const RoundMessage& m) { received(m); },
                              [this](const std::string& text, MonoTime until) { waiting_.set(text, until); },
                              [this](const Verdict& verdict, std::optional<Duration> grace) { over(verdict, grace); },
                              [this](const std::string& reason, Duration grace) { host_lost(reason, grace); },
                              [this] { return did_not_run(); }});
  return joining_->open();
}

Result<void> NodeRounds::serve_alone() {
  StoreHost::Options options;
  options.address = spec_.nodes.address;
  options.port = spec_.nodes.port;
  return start_store(std::move(options));
}

// The store serves the workers of this user.
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
  if (const auto* facts = std::get_if<msg::Facts>(&message)) return question_.answer(facts->job);
  if (const auto* waiting = std::get_if<msg::Waiting>(&message)) {
    show_waiting(*waiting);
  } else if (const auto* open = std::get_if<msg::Open>(&message)) {
    waiting_.clear();
    place_ = open->place;
    passed_fence_ = false;
    in_round_ = true;
    keep_fence();
    callbacks_.feed(event::RoundOpened{place_.round, place_.restart_count, place_.base_rank});
  } else if (const auto* stop = std::get_if<msg::Stop>(&message)) {
    callbacks_.feed(
        event::RoundStopped{stop->signal, stop->reason, {stop->because_of, true, printable(stop->because)}});
  } else if (const auto* end = std::get_if<msg::End>(&message)) {
    drop_fence();  // nobody goes on
    over(end->verdict, {});
  }
}

void NodeRounds::over(const Verdict& verdict, std::optional<Duration> grace) {
  if (std::exchange(over_, true)) return;
  waiting_.stop();
  callbacks_.feed(event::JobEnded{verdict, grace});
}

// The old host has the store of the round. An edge of that store goes with the workers.
void NodeRounds::host_lost(const std::string& reason, Duration grace) {
  if (over_) return;
  callbacks_.feed(event::HostLost{reason, grace});
  if (over_ || in_round_) return;
  store_.reset();  // it may be an edge of the old host's store
  joining_->join_again();
}

// Renews the fence more often than the node pings its host. When the host is lost the last time stands, until there are
// no workers any more.
void NodeRounds::keep_fence() {
  if (!spec_.nodes.across_hosts) return;
  const auto at = joining_->fenced_at();
  if (at || joining_->hosting() != nullptr) callbacks_.fence(at);
  fence_.expires_after(spec_.nodes.pulse.ping_every() / 2);
  fence_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec && in_round_ && !over_) keep_fence();
  });
}

// Asked once for each loss of the host.
bool NodeRounds::did_not_run() { return std::exchange(passed_fence_, false) || callbacks_.fence_passed(); }

void NodeRounds::drop_fence() {
  // Else the workers ended late because of what is known already.
  if (!over_ && !joining_->hostless()) passed_fence_ = callbacks_.fence_passed();
  fence_.cancel();
  callbacks_.fence(std::nullopt);
}

void NodeRounds::show_waiting(const msg::Waiting& waiting) {
  std::optional<MonoTime> until;
  if (waiting.left_ms >= 0) until = SteadyClock::now() + std::chrono::milliseconds(waiting.left_ms);
  waiting_.set(describe(waiting) + only_here(spec_.nodes), until);
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
  assignment.uniform = place_.uniform;
  assignment.master_addr = place_.master_addr;
  assignment.master_port = uint16_t(place_.master_port);
  if (!spec_.nodes.across_hosts) return assignment;
  assignment.rank0_addr = place_.master_addr;
  if (spec_.nodes.real_master && !joining_->at_server()) {
    // The workers go to the address that this agent is connected to: the host asks this agent who they are.
    if (joining_->hosting() == nullptr) assignment.master_addr = joining_->host_address();
    return assignment;
  }
  // The workers meet at the store through the agent of their own host.
  assignment.master_addr = "127.0.0.1";
  if (HostedJob* hosting = joining_->hosting()) {
    assignment.master_port = hosting->store().port();
    return assignment;
  }
  if (auto started = start_edge(); !started) return started.error();
  store_->begin_round(static_cast<std::uint64_t>(assignment.round));
  assignment.master_port = store_->port();
  return assignment;
}

// Serves the host's store to this node's workers, over a link of each round.
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
      if (!over_) say_(reason);
    });
  };
  return start_store(std::move(options));
}

// Null: this node serves none.
StoreHost* NodeRounds::own_store() const {
  return joining_ && joining_->hosting() ? &joining_->hosting()->store() : store_.get();
}

void NodeRounds::tell_workers(const action::WorkerGone& gone) {
  StoreHost* store = own_store();
  if (store == nullptr) return;
  const auto told =
      store->set(gone_key(place_.base_rank + gone.local_rank, gone.incarnation), gone.well ? kGoneWell : kGoneFailed);
  if (!told) say_(told.error().message);
}

void NodeRounds::report(const GroupAction& action) {
  if (const auto* gone = std::get_if<action::WorkerGone>(&action)) tell_workers(*gone);
  if (!joining_) return;
  if (const auto* failed = std::get_if<action::ReportFailure>(&action)) {
    const Blame& blame = failed->blame;
    const std::string because = blame.rank >= 0 ? fmt::format(", because of rank {}", blame.rank) : "";
    joining_->send(msg::Failed{failed->round, failed->local_rank,
                               fmt::format("rank {} (local rank {}): {}{}", place_.base_rank + failed->local_rank,
                                           failed->local_rank, failed->what, because),
                               exit_code_of(failed->status), failed->status.kind == ExitStatus::Kind::not_started,
                               blame.rank, blame.what});
  } else if (const auto* over = std::get_if<action::ReportOver>(&action)) {
    // Nobody is left here who could miss the store; the host may go on to the next round.
    if (store_) store_->renew();
    in_round_ = false;
    drop_fence();
    if (!joining_->hostless()) return joining_->send(msg::Over{over->round, over->ok, over->left});
    store_.reset();
    joining_->join_again();
  } else if (const auto* leaving = std::get_if<action::ReportLeaving>(&action)) {
    joining_->leave(msg::Leaving{leaving->signal, leaving->running});
  }
}

// ---- for `dtrain status` --------------------------------------------------------------------------------------------

void NodeRounds::ask(FactsQuestion::Taker taker) {
  if (!joining_ || !heard_ || over_) return taker(std::nullopt);
  if (question_.ask(std::move(taker))) joining_->send(msg::Ask{});
}

void NodeRounds::fill(AgentFacts& facts) const {
  if (const StoreHost* store = own_store(); store != nullptr) facts.store = store->stats();
  if (!joining_) return;
  facts.hosts = joining_->hosting() != nullptr;
  facts.endpoint = joining_->endpoint();
  facts.waiting = waiting_.text();
}

void NodeRounds::close(const std::optional<Outcome>& outcome, std::optional<MonoTime> until) {
  over_ = true;
  waiting_.stop();
  fence_.cancel();
  question_.answer(std::nullopt);
  if (joining_) {
    const std::string why = outcome ? outcome->reason : "it was given up";
    const bool stopped = outcome && outcome->stop_signal != 0;
    const bool died = !outcome || outcome->cause == StopCause::guard_lost;  // by a process that was killed here
    joining_->close({stopped ? JobEnd::stopped : JobEnd::lost, stopped ? 128 + outcome->stop_signal : kExitOwnFailure,
                     -1, fmt::format("the agent that hosts the job (pid {}) left: {}", ::getpid(), why)},
                    died, until);
  }
  store_.reset();
}

}  // namespace dtrain::launcher
