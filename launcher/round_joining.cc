#include "launcher/round_joining.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <limits>
#include <utility>

#include "launcher/exit_codes.h"
#include "launcher/host_name.h"
#include "rendezvous/listen.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr auto kFirstRetry = std::chrono::milliseconds(10);
constexpr auto kLongestRetry = std::chrono::milliseconds(100);
constexpr auto kLongestRetryAcross = std::chrono::milliseconds(1000);
// A host that is just leaving turns everybody away, for a second or so.
constexpr int kMostTurnedAway = 12;
constexpr int kMostTurnedAwayAcross = 9;  // the times between them are longer

std::string random_id() {
  std::uint64_t words[2] = {};
  // Of 16 bytes the kernel never gives a part.
  if (::getrandom(words, sizeof words, 0) != ssize_t(sizeof words)) words[0] = std::uint64_t(::getpid());
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

}  // namespace

RoundJoining::RoundJoining(asio::io_context& io, const JobSpec& spec, Callbacks callbacks)
    : io_(io),
      spec_(spec),
      callbacks_(std::move(callbacks)),
      agent_id_(random_id()),
      finder_(make_host_finder(io, spec, agent_id_, finder_callbacks())),
      link_(io, {[this](const RoundMessage& m) { received(m); }, [this](const Error& e) { unreachable(e); },
                 [this](bool joined, const std::string& why, TlsFault fault) { link_lost(joined, why, fault); },
                 [this](int round) { finder_->settled(round); }}),
      credential_(spec.nodes.credential),
      retry_(io),
      retry_after_(kFirstRetry) {}

HostFinder::Callbacks RoundJoining::finder_callbacks() {
  HostFinder::Callbacks callbacks;
  callbacks.host_here = [this](HostFinder::Here here) {
    if (over_) return;
    term_ = here.term;
    auto hosting = RoundHosting::open(io_, spec_, agent_id_, last_, std::move(here), callbacks_.say);
    if (!hosting) return end({JobEnd::refused, kExitOwnFailure, -1, hosting.error().message});
    hosting_ = std::move(*hosting);
    if (idle_) join_here();
  };
  callbacks.at = [this](const HostFinder::There& there) {
    if (!over_ && idle_) join(there);
  };
  callbacks.nobody = [this](const std::string& why) {
    if (!over_) try_again_later(why);
  };
  callbacks.failed = [this](const Error& e) {
    if (hostless()) return end({JobEnd::lost, kExitOwnFailure, -1, ended(e.message)});
    end({JobEnd::refused, kExitOwnFailure, -1, e.message});
  };
  callbacks.withdraw = [this] {
    if (over_ || !idle_) return;
    link_.close();
    try_again_later("another host is being chosen");
  };
  callbacks.deposed = [this](const std::string& why) {
    link_.close();
    link_lost(true, why, TlsFault::none);
  };
  callbacks.say = callbacks_.say;
  return callbacks;
}

Result<void> RoundJoining::open() {
  give_up_at_ = clock_.now() + spec_.nodes.join_timeout;
  if (auto opened = finder_->open(); !opened) return opened;
  look();
  return {};
}

NodeInfo RoundJoining::own_info() {
  NodeInfo info;
  info.job = spec_.run_id;
  info.agent_id = agent_id_;
  info.host = short_hostname();
  info.pid = ::getpid();
  info.role = spec_.role;
  info.topology = spec_.nodes.topology;
  info.workers = spec_.nproc_per_node;
  info.wanted_rank = spec_.nodes.node_rank;
  info.min_nodes = spec_.nodes.min;
  info.max_nodes = spec_.nodes.max;
  info.max_restarts = spec_.max_restarts;
  const auto stop = std::max(spec_.shutdown_timeout, spec_.failure_grace) + spec_.kill_timeout;
  info.stop_ms = int(std::min<std::int64_t>(stop.count(), std::numeric_limits<int>::max()));
  info.real_master = spec_.nodes.across_hosts && spec_.nodes.real_master;
  info.last = last_;
  info.times = node_times(spec_.nodes);
  info.attempt = ++attempts_;
  return info;
}

void RoundJoining::look() {
  if (hosting_) return join_here();
  // Where nobody follows a host, nobody takes its place either.
  if (hostless() && !finder_->survives_host()) return join(HostFinder::There(there_));
  // Should the answer take so long.
  retry_at(give_up_at_, waits_because_.empty() ? "there is no host yet" : waits_because_);
  finder_->find();
}

void RoundJoining::join_here() {
  const auto& nodes = spec_.nodes;
  if (!nodes.across_hosts) return join({{nodes.address}, hosting_->port(), term_});
  retry_.cancel();
  auto own = hosting_->own_connection();
  if (!own) return end({JobEnd::refused, kExitOwnFailure, -1, own.error().message});
  NodeInfo info = own_info();
  finder_->complete("", info);
  link_.join_own(std::move(*own), info);
}

void RoundJoining::join(const HostFinder::There& there) {
  if (there.term < last_.term) return try_again_later("the host that was found is an old one");
  retry_.cancel();
  const auto& nodes = spec_.nodes;
  if (nodes.munge_socket && !credential_) return ask_for_secret(there);
  term_ = there.term;
  there_ = there;
  told_ = false;
  link_.connect({there.addresses, there.port, nodes.across_hosts, credential_, nodes.pulse,
                 [this](const std::string& own_address, NodeInfo& node) { finder_->complete(own_address, node); }},
                own_info());
}

void RoundJoining::ask_for_secret(const HostFinder::There& there) {
  if (!ask_) {
    auto munge = Munge::load(*spec_.nodes.munge_socket);
    if (!munge) return end({JobEnd::refused, kExitOwnFailure, -1, munge.error().message});
    ask_.emplace(io_, std::move(*munge));
  }
  ask_->start(there.addresses, there.port, spec_.run_id, [this, there](const Result<JobSecret>& secret) {
    if (over_) return;
    if (!secret && secret.error().errno_value != 0) return unreachable(secret.error());
    if (!secret) return turned_away(secret.error().message, TlsFault::refused);
    credential_ = *secret;
    join(there);
  });
}

void RoundJoining::join_again() {
  give_up_at_ = clock_.now() + spec_.nodes.join_timeout;
  retry_after_ = kFirstRetry;
  waits_because_.clear();
  turned_away_ = 0;
  idle_ = true;
  look();
}

// Why an agent that has lost its host ends.
std::string RoundJoining::ended(const std::string& why) const {
  const std::string because = !why.empty() ? why : finder_->missing();
  return because.empty() ? lost_because_ : lost_because_ + "; " + because;
}

void RoundJoining::try_again_later(const std::string& why) {
  if (clock_.now() >= give_up_at_ && hostless()) {
    const std::string missing = finder_->missing();
    return end({JobEnd::lost, kExitOwnFailure, -1,
                fmt::format("{}; nobody was found at {} for {:g} s (--rdzv-conf join_timeout): {}{}{}", lost_because_,
                            endpoint(), std::chrono::duration<double>(spec_.nodes.join_timeout).count(), why,
                            missing.empty() ? "" : "; ", missing)});
  }
  if (clock_.now() >= give_up_at_)
    return end({JobEnd::timeout, kExitTimeLimit, -1,
                fmt::format("nobody has opened the job at {} within {:g} s (--rdzv-conf {}){}", endpoint(),
                            std::chrono::duration<double>(spec_.nodes.join_timeout).count(),
                            spec_.nodes.node_rank < 0 ? "join_timeout" : "timeout",
                            spec_.nodes.across_hosts ? ": " + why : "")});
  waits_because_ = why;
  callbacks_.waiting(why, give_up_at_);
  retry_at(std::min(clock_.now() + retry_after_, give_up_at_), why);
  retry_after_ = std::min<Duration>(2 * retry_after_, spec_.nodes.across_hosts ? kLongestRetryAcross : kLongestRetry);
}

void RoundJoining::retry_at(MonoTime at, const std::string& why) {
  retry_.expires_at(at);
  retry_.async_wait([this, why](const boost::system::error_code& ec) {
    if (ec || over_) return;
    if (clock_.now() >= give_up_at_) return try_again_later(why);
    look();
  });
}

void RoundJoining::received(const RoundMessage& message) {
  if (over_) return;
  if (std::holds_alternative<msg::Standing>(message)) {
    standing_ = true;
    return;
  }
  const auto* refused = std::get_if<msg::Refused>(&message);
  if (refused == nullptr) {
    if (!hosting_ && !std::exchange(told_, true)) finder_->joined(there_);
    if (over_ || !link_.joined()) return;
    if (const auto* open = std::get_if<msg::Open>(&message); open != nullptr && !opened(*open)) return;
    return callbacks_.message(message);
  }
  link_.close();
  finder_->lost(term_, {});
  if (refused->try_again) return try_again_later(refused->reason);
  end({JobEnd::refused, kExitOwnFailure, -1, fmt::format("{}: {}", endpoint(), refused->reason)});
}

// False: it comes from a host that another has followed.
bool RoundJoining::opened(const msg::Open& open) {
  if (open.term < last_.term) {
    link_.close();
    link_lost(true, "another agent hosts the job since", TlsFault::none);
    return false;
  }
  lost_because_.clear();
  there_.term = open.term;
  last_ = {open.term,        open.place.round,         open.place.node_rank,
           open.place.nodes, open.place.restart_count, open.electorate.host};
  idle_ = false;
  finder_->opened(open);
  return true;
}

void RoundJoining::unreachable(const Error& error) {
  if (over_) return;
  finder_->lost(term_, {});
  // Its host is there, but it is not: an endpoint alone has no other. A server may be started again.
  if (hostless() && error.errno_value == ECONNREFUSED && !standing_ && !finder_->survives_host())
    return end({JobEnd::lost, kExitOwnFailure, -1, ended("")});
  const bool nobody = !spec_.nodes.across_hosts || error.errno_value == ECONNREFUSED;
  try_again_later(nobody ? fmt::format("nobody at {} yet", endpoint()) : error.message);
}

void RoundJoining::link_lost(bool joined, const std::string& reason, TlsFault fault) {
  if (over_) return;
  finder_->lost(term_, link_.stamped());
  if (!joined) return turned_away(reason, fault);
  const std::string gone =
      fmt::format("the {} at {} is gone{}{}", standing_ ? "rendezvous server" : "agent that hosts the job", endpoint(),
                  reason.empty() ? "" : ": ", reason);
  const Duration grace = spec_.nodes.pulse.kill_grace();
  const bool again = spec_.nodes.rejoin && (!hosting_ || finder_->survives_host());
  if (!again) {
    return end({JobEnd::lost, kExitOwnFailure, -1, gone},
               spec_.nodes.across_hosts ? std::optional(grace) : std::nullopt);
  }
  // Never from within a call of the agent's, or of what goes now.
  asio::post(io_, [this, gone, grace] {
    if (over_) return;
    lost_because_ = gone;
    idle_ = false;  // until join_again()
    hosting_.reset();
    callbacks_.lost(gone, grace);
  });
}

// What is there may just be leaving; but who turns us away again and again does not want us.
void RoundJoining::turned_away(const std::string& reason, TlsFault fault) {
  const bool across = spec_.nodes.across_hosts;
  // What is said in clear can come from anybody on the way, so it is not believed at once either.
  const bool wait = across ? fault != TlsFault::local : reason.empty();
  const std::string what = reason.empty() ? "it closes the connection" : reason;
  if (spec_.nodes.munge_socket) credential_.reset();  // the next host of the job has another
  if (wait && ++turned_away_ < (across ? kMostTurnedAwayAcross : kMostTurnedAway))
    return try_again_later(across ? fmt::format("{}: {}", endpoint(), what)
                                  : fmt::format("nobody at {} yet", endpoint()));
  if (across) {
    const char* cure = fault == TlsFault::none ? "; is it another program's port?" : "";
    return end(
        {JobEnd::refused, kExitOwnFailure, -1, fmt::format("cannot join the job at {}: {}{}", endpoint(), what, cure)});
  }
  const std::string holder = port_holder(spec_.nodes.port);
  end({JobEnd::refused, kExitOwnFailure, -1,
       fmt::format("{} is not this job's: {}{}; choose another port", endpoint(),
                   holder.empty() ? "" : "it is " + holder + ", ",
                   reason.empty() ? "it closes the connection (another user's?)" : reason)});
}

void RoundJoining::end(const Verdict& verdict, std::optional<Duration> grace) {
  if (std::exchange(over_, true)) return;
  // Never from within a call of the agent's.
  asio::post(io_, [this, verdict, grace] { callbacks_.over(verdict, grace); });
}

void RoundJoining::close(const Verdict& as_host, bool died) {
  over_ = true;
  link_.close();
  ask_.reset();
  retry_.cancel();
  const bool silent = died && spec_.nodes.rejoin && finder_->survives_host();
  finder_->close(silent);
  if (hosting_ && !silent) hosting_->close(as_host);
  hosting_.reset();
}

}  // namespace dtrain::launcher
