#include "launcher/hosting/hosted_job.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "launcher/finding/endpoint_finder.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/rounds/round_wire.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr auto kHostFarewell = std::chrono::seconds(1);

int in_milliseconds(Duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  return static_cast<int>(std::min<std::int64_t>(ms, 2000000000));
}

RoundSettings round_settings(const JobSpec& spec, const NodeInfo& self, const HostFinder::Here& here,
                             std::uint16_t port) {
  RoundSettings settings;
  settings.job = spec.run_id;
  settings.host_agent = self.agent_id;
  settings.term = here.term;
  settings.fixed_ranks = spec.nodes.node_rank >= 0;
  settings.names = spec.nodes.names;
  settings.min_nodes = spec.nodes.min;
  settings.max_nodes = spec.nodes.max;
  settings.max_restarts = spec.max_restarts;
  settings.in_vain = only_here(spec.nodes);
  settings.master_addr = here.address;
  settings.master_port = port;
  settings.real_master = spec.nodes.real_master;
  settings.join_timeout = spec.nodes.join_timeout;
  settings.last_call_timeout = spec.nodes.last_call_timeout;
  settings.awaits_others = spec.nodes.rejoin;
  settings.times = self.times;
  settings.succession = here.succession.has_value();
  settings.regather_timeout = spec.nodes.pulse.lost_after();
  settings.after = {self.last.round, self.last.restarts, self.last.nodes, here.not_before};
  return settings;
}

}  // namespace

NodeTimes node_times(const NodesSpec& nodes) {
  return {in_milliseconds(nodes.join_timeout), in_milliseconds(nodes.last_call_timeout),
          in_milliseconds(nodes.pulse.interval), nodes.pulse.attempts, nodes.rejoin};
}

HostedJob::HostedJob(asio::io_context& io, const JobSpec& spec, RoundSettings settings, const HostFinder::Here& here,
                     const Say& say)
    : io_(io),
      say_(say),
      port_(std::uint16_t(settings.master_port)),
      rounds_(io, std::move(settings),
              {[this](int round) {
                 if (outer_) outer_->drop_workers();
                 store_->begin_round(static_cast<std::uint64_t>(round));
               },
               spec.nodes.across_hosts ? std::optional(spec.nodes.pulse) : std::nullopt, here.sure, here.before_round,
               spec.nodes.real_master, false, here.succession, say_}) {}

HostedJob::~HostedJob() = default;

Result<std::unique_ptr<HostedJob>> HostedJob::open(asio::io_context& io, const JobSpec& spec, const NodeInfo& self,
                                                   HostFinder::Here here, const Say& say) {
  const auto port = port_of_socket(here.listener.get());
  if (!port) return port.error();
  std::unique_ptr<HostedJob> job(new HostedJob(io, spec, round_settings(spec, self, here, *port), here, say));
  if (auto serving = job->serve(std::move(here.listener), spec); !serving) return serving.error();
  return job;
}

Result<void> HostedJob::serve_here(UniqueFd listener, StoreHost::Options options) {
  options.adopt_byte = kRoundGreeting.front();
  options.adopt = [this](UniqueFd socket, std::string received) {
    asio::post(io_, [this, fd = std::move(socket), bytes = std::move(received)]() mutable {
      rounds_.adopt({std::move(fd)}, bytes);
    });
  };
  // No worker comes before the first round.
  options.early = [this] {
    asio::post(io_, [this] { rounds_.turned_away(std::string("refused a node: ") + kTorchrunKnocks, false); });
  };
  return start_store(std::move(listener), std::move(options));
}

Result<void> HostedJob::serve(UniqueFd listener, const JobSpec& spec) {
  StoreHost::Options options;
  options.allowed_uid = ::geteuid();
  if (!spec.nodes.across_hosts) return serve_here(std::move(listener), std::move(options));
  auto loopback = listen_at("127.0.0.1", 0);
  if (!loopback) return loopback.error();
  if (auto started = start_store(std::move(*loopback), std::move(options)); !started) return started;
  OuterListener::Options outer;
  outer.job = spec.run_id;
  outer.credential = spec.nodes.credential;
  if (spec.nodes.munge_socket && spec.nodes.credential) {
    auto munge = Munge::load(*spec.nodes.munge_socket);
    if (!munge) return munge.error();
    outer.munge = std::make_shared<MungeDesk>(io_, std::move(*munge), *spec.nodes.credential->secret(), spec.run_id);
  }
  outer.agent = [this](LinkSocket socket, const std::string& bytes) { rounds_.adopt(std::move(socket), bytes); };
  outer.store = [this](LinkSocket socket, std::string bytes) {
    store_->adopt_link(std::move(socket.fd), std::move(bytes), std::move(socket.tls));
  };
  if (spec.nodes.real_master) {
    auto peer_uid = PeerUid::open();
    if (!peer_uid) return peer_uid.error().in("--master-addr real");
    peer_uid_ = std::move(*peer_uid);
    outer.vouch = [this](const TcpEnds& ends, VouchDesk::Answer answer) { vouch(ends, std::move(answer)); };
    outer.worker = [this](UniqueFd fd) { store_->adopt_client(std::move(fd)); };
  }
  outer.log = [this](const std::string& line) {
    say_(line);
    rounds_.turned_away(line, true);
  };
  outer_ = std::make_unique<OuterListener>(io_, std::move(listener), std::move(outer));
  return {};
}

// This agent knows its own host's workers. Those of other hosts are known to their agents.
void HostedJob::vouch(const TcpEnds& ends, VouchDesk::Answer answer) {
  const auto uid = peer_uid_->lookup(ends);
  // The look-up may find a listener here with the same port as theirs, so only this user's socket counts.
  if (!uid || *uid != ::geteuid()) return rounds_.vouch(ends, std::move(answer));
  answer(true);
}

Result<void> HostedJob::start_store(UniqueFd listener, StoreHost::Options options) {
  auto store = StoreHost::start(std::move(listener), std::move(options));
  if (!store) return store.error();
  store_ = std::move(*store);
  return {};
}

Result<UniqueFd> HostedJob::own_connection() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("a connection to the rounds", errno);
  rounds_.adopt_own(UniqueFd(ends[0]));
  return UniqueFd(ends[1]);
}

void HostedJob::close(const Verdict& verdict, std::optional<MonoTime> until) {
  rounds_.close(verdict);
  rounds_.on_empty = [this] { io_.stop(); };
  io_.restart();
  const MonoTime soon = SteadyClock::now() + kHostFarewell;
  if (!rounds_.empty()) io_.run_until(std::max(soon, until.value_or(soon)));
}

}  // namespace dtrain::launcher
