#include "launcher/hosting/round_joining.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <limits>
#include <utility>

#include "launcher/base/host_name.h"
#include "launcher/finding/endpoint_finder.h"
#include "launcher/finding/make_host_finder.h"
#include "launcher/job/exit_codes.h"
#include "rendezvous/net/deadline.h"
#include "rendezvous/net/listen.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

std::string random_id() {
  std::uint64_t words[2] = {};
  // The kernel gives 16 bytes whole or not at all.
  if (::getrandom(words, sizeof words, 0) != ssize_t(sizeof words)) words[0] = std::uint64_t(::getpid());
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

NodeInfo own_info(const JobSpec& spec) {
  NodeInfo info;
  info.job = spec.run_id;
  info.agent_id = random_id();
  info.host = short_hostname();
  info.pid = ::getpid();
  info.role = spec.role;
  info.topology = spec.nodes.topology;
  info.workers = spec.nproc_per_node;
  info.wanted_rank = spec.nodes.node_rank;
  info.min_nodes = spec.nodes.min;
  info.max_nodes = spec.nodes.max;
  info.max_restarts = spec.max_restarts;
  const auto stop = std::chrono::duration_cast<std::chrono::milliseconds>(
      spec.failure_grace + std::max(spec.shutdown_timeout, spec.failure_grace) + spec.kill_timeout);
  info.stop_ms = int(std::min<std::int64_t>(stop.count(), std::numeric_limits<int>::max()));
  info.real_master = spec.nodes.across_hosts && spec.nodes.real_master;
  info.times = node_times(spec.nodes);
  return info;
}

JoinSettings join_settings(const NodesSpec& nodes) {
  return {nodes.join_timeout,   nodes.across_hosts,       nodes.rejoin,
          nodes.node_rank >= 0, nodes.pulse.kill_grace(), only_here(nodes)};
}

// Who has the endpoint's port in this job's place.
std::string port_text(std::uint16_t port, const std::string& endpoint, const std::string& reason) {
  const std::string holder = port_holder(port);
  // torch names its agent's process pt_elastic.
  if (holder.starts_with("pt_elastic") || holder.starts_with("torchrun"))
    return fmt::format("torchrun ({}) has opened this job at {}: all nodes need the same launcher", holder, endpoint);
  return fmt::format("{} is not this job's: {}{}; choose another port", endpoint,
                     holder.empty() ? "" : "it is " + holder + ", ",
                     reason.empty() ? "it closes the connection (another user's?)" : reason);
}

}  // namespace

RoundJoining::RoundJoining(asio::io_context& io, const JobSpec& spec, const Say& say, Callbacks callbacks)
    : io_(io),
      spec_(spec),
      say_(say),
      callbacks_(std::move(callbacks)),
      info_(own_info(spec)),
      core_(join_settings(spec.nodes)),
      timer_(io),
      finder_(make_host_finder(io, spec, info_.agent_id, answers(), follows(), say)),
      follower_(finder_->follower()),
      link_(io, {[this](const RoundMessage& m) { received(m); }, [this](const Error& e) { unreachable(e); },
                 [this](bool joined, const std::string& why, TlsFault fault) { link_lost(joined, why, fault); },
                 [this](int round) { tell_follower(host_news::Settled{round}); }}),
      credential_(spec.nodes.credential) {}

HostFinder::Answers RoundJoining::answers() {
  return {[this](HostFinder::Here here) { host(std::move(here)); },
          [this](const HostPlace& there) { feed(join_event::Found{there}); },
          [this](const std::string& why) { feed(join_event::Nobody{why}); },
          [this](const Error& error) { feed(join_event::NoHost{error.message}); }};
}

HostFollower::Callbacks RoundJoining::follows() {
  return {[this](const std::string& why) {
            link_.close();
            link_lost(true, why, TlsFault::none);
          },
          [this] { feed(join_event::Withdraw{}); }};
}

Result<void> RoundJoining::open() {
  if (auto opened = finder_->open(); !opened) return opened;
  feed(join_event::Begin{});
  return {};
}

// ---- what the core says ---------------------------------------------------------------------------------------------

void RoundJoining::feed(const JoinEvent& event) {
  for (const auto& action : core_.step(event, scene(), SteadyClock::now())) perform(action);
  arm();
}

JoinScene RoundJoining::scene() const {
  return {hosting_ != nullptr, survives_host(), endpoint(), follower_ != nullptr ? follower_->missing() : ""};
}

void RoundJoining::arm() {
  call_at(timer_, core_.deadline(), [this] { feed(join_event::Tick{}); });
}

void RoundJoining::perform(const JoinAction& action) {
  if (std::holds_alternative<join_action::Find>(action)) return finder_->find();
  if (const auto* a = std::get_if<join_action::Dial>(&action)) return a->here ? dial_here() : dial(a->host);
  if (std::holds_alternative<join_action::HangUp>(action)) return link_.close();
  if (const auto* a = std::get_if<join_action::Wait>(&action)) return callbacks_.waiting(a->why, a->until);
  if (const auto* a = std::get_if<join_action::GiveUp>(&action)) return end(a->verdict, a->grace);
  if (const auto* a = std::get_if<join_action::GiveUpPort>(&action))
    return end({JobEnd::refused, kExitOwnFailure, -1, port_text(spec_.nodes.port, endpoint(), a->reason)});
  const auto& part = std::get<join_action::Part>(action);
  hosting_.reset();
  callbacks_.lost(part.reason, part.grace);
}

void RoundJoining::host(HostFinder::Here here) {
  if (core_.over()) return;
  const std::uint64_t term = here.term;
  auto hosting = HostedJob::open(io_, spec_, info_, std::move(here), say_);
  if (!hosting) return feed(join_event::Failed{hosting.error().message});
  hosting_ = std::move(*hosting);
  feed(join_event::Found{{{spec_.nodes.address}, hosting_->port(), term}, true});
}

void RoundJoining::dial_here() {
  if (!spec_.nodes.across_hosts) return dial(core_.host());
  auto own = hosting_->own_connection();
  if (!own) return feed(join_event::Failed{own.error().message});
  ++info_.attempt;
  NodeInfo info = info_;
  complete("", info);
  link_.join_own(std::move(*own), info);
}

void RoundJoining::dial(const HostPlace& host) {
  const auto& nodes = spec_.nodes;
  if (nodes.munge_socket && !credential_) return ask_for_secret(host);
  told_ = false;
  ++info_.attempt;
  link_.connect({host.addresses, static_cast<std::uint16_t>(host.port), nodes.across_hosts, credential_, nodes.pulse,
                 [this](const std::string& own_address, NodeInfo& node) { complete(own_address, node); }},
                info_);
}

void RoundJoining::ask_for_secret(const HostPlace& host) {
  if (!ask_) {
    auto munge = Munge::load(*spec_.nodes.munge_socket);
    if (!munge) return feed(join_event::Failed{munge.error().message});
    ask_.emplace(io_, std::move(*munge));
  }
  const auto port = static_cast<std::uint16_t>(host.port);
  ask_->start(host.addresses, port, spec_.run_id, [this, host](const Result<JobSecret>& secret) {
    if (core_.phase() != JoinCore::Phase::dialing) return;
    if (!secret && secret.error().errno_value != 0) return unreachable(secret.error());
    if (!secret) return turned_away(secret.error().message, TlsFault::refused);
    credential_ = *secret;
    dial(host);
  });
}

// ---- what the host says ---------------------------------------------------------------------------------------------

void RoundJoining::received(const RoundMessage& message) {
  if (core_.over()) return;
  if (const auto* welcome = std::get_if<msg::Welcome>(&message))
    return welcome->standing ? feed(join_event::Standing{}) : void();
  if (const auto* refused = std::get_if<msg::Refused>(&message)) {
    link_.close();
    tell_follower(host_news::Lost{core_.host().term, {}});
    return feed(join_event::Refused{refused->reason, refused->try_again});
  }
  if (!hosting_ && !std::exchange(told_, true)) tell_follower(host_news::Joined{core_.host()});
  // The follower may withdraw at this.
  if (core_.over() || !link_.joined()) return;
  if (const auto* open = std::get_if<msg::Open>(&message)) {
    if (core_.outdated(open->term)) {
      link_.close();
      return link_lost(true, "another agent hosts the job since", TlsFault::none);
    }
    opened(*open);
  }
  callbacks_.message(message);
}

void RoundJoining::opened(const msg::Open& open) {
  const NodePlace& place = open.place;
  info_.last = {open.term, place.round, place.node_rank, place.nodes, place.restart_count, open.electorate.host};
  feed(join_event::Opened{open.term});
  tell_follower(host_news::Opened{open});
}

void RoundJoining::unreachable(const Error& error) {
  if (core_.over()) return;
  tell_follower(host_news::Lost{core_.host().term, {}});
  feed(join_event::Unreachable{error.message, error.errno_value == ECONNREFUSED});
}

void RoundJoining::link_lost(bool joined, const std::string& reason, TlsFault fault) {
  if (core_.over()) return;
  tell_follower(host_news::Lost{core_.host().term, link_.stamped()});
  if (!joined) return turned_away(reason, fault);
  // Never from within a call of the agent's, or of the objects that go now.
  asio::post(io_, [this, reason, late = callbacks_.did_not_run()] { feed(join_event::LinkLost{reason, late}); });
}

void RoundJoining::turned_away(const std::string& reason, TlsFault fault) {
  if (spec_.nodes.munge_socket) credential_.reset();  // the next host of the job has another
  const bool final = spec_.nodes.across_hosts ? fault == TlsFault::local : !reason.empty();
  feed(join_event::TurnedAway{reason, final, fault == TlsFault::none});
}

void RoundJoining::tell_follower(const HostNews& news) {
  if (follower_ != nullptr) follower_->hear(news);
}

void RoundJoining::complete(const std::string& own_address, NodeInfo& node) {
  if (follower_ != nullptr) follower_->complete(own_address, node);
}

// ---- the end --------------------------------------------------------------------------------------------------------

void RoundJoining::end(const Verdict& verdict, std::optional<Duration> grace) {
  // Never from within a call of the agent's.
  asio::post(io_, [this, verdict, grace] { callbacks_.over(verdict, grace); });
}

std::optional<MonoTime> RoundJoining::fenced_at() const {
  if (!hosting_) return link_.fenced_at();
  return follower_ != nullptr ? follower_->fenced_at() : std::nullopt;
}

void RoundJoining::leave(const msg::Leaving& message) {
  tell_follower(host_news::Leaves{});
  link_.send(message);
}

void RoundJoining::close(const Verdict& as_host, bool died, std::optional<MonoTime> until) {
  core_.close();
  link_.close();
  ask_.reset();
  timer_.cancel();
  const bool silent = died && spec_.nodes.rejoin && survives_host();
  if (follower_ != nullptr) follower_->close(silent);
  if (hosting_ && !silent) hosting_->close(as_host, until);
  hosting_.reset();
}

}  // namespace dtrain::launcher
