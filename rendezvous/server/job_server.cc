#include "rendezvous/server/job_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "rendezvous/agent_link/round_host.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/store_server/store_host.h"

namespace dtrain {

namespace asio = boost::asio;

namespace {

constexpr auto kFarewell = std::chrono::seconds(3);  // for the agents of a job that has ended to go
constexpr int kLongestMs = 2000000000;               // of any time that an agent asks for
constexpr std::size_t kMostEnded = 4096;             // jobs whose end is remembered

// The first message, if it is a Join.
std::optional<NodeInfo> first_join(std::string_view received) {
  RoundDecoder decoder;
  decoder.feed(received);
  if (decoder.next() != RoundDecoder::Status::message) return std::nullopt;
  const auto* join = std::get_if<msg::Join>(&decoder.message());
  return join != nullptr ? std::optional(join->node) : std::nullopt;
}

// An agent may be the first of its job, and then its Join says what the job is.
bool enough(const LinkName& link, std::string_view received) {
  if (link.role != LinkRole::agent) return true;
  RoundDecoder decoder;
  decoder.feed(received);
  return decoder.next() != RoundDecoder::Status::need_more;
}

bool makes_sense(const NodeInfo& first) {
  const auto& t = first.times;
  const bool count = first.min_nodes >= 1 && first.min_nodes <= first.max_nodes && first.max_restarts >= 0;
  const bool times = t.join_ms >= 0 && t.join_ms <= kLongestMs && t.last_call_ms >= 0 && t.last_call_ms <= kLongestMs;
  const bool pulse = t.pulse_ms >= 1000 && t.pulse_ms <= 3600000 && t.pulse_attempts >= 3 && t.pulse_attempts <= 1000;
  return count && times && pulse;
}

PulseSettings pulse_of(const NodeInfo& first) {
  return {std::chrono::milliseconds(first.times.pulse_ms), first.times.pulse_attempts};
}

// Terms tell apart jobs that had the same name, those of a server that was there before too.
// Later jobs of a name have higher ones, whatever the clock says.
std::uint64_t new_term(const NodeInfo& first, std::uint64_t ended) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(since_1970).count();
  return std::max({static_cast<std::uint64_t>(now), first.last.term + 1, ended + 1});
}

RoundSettings settings_of(const NodeInfo& first, std::uint64_t ended, MonoTime server_begun) {
  const PulseSettings pulse = pulse_of(first);
  RoundSettings settings;
  settings.job = first.job;
  settings.term = new_term(first, ended);
  settings.fixed_ranks = first.wanted_rank >= 0;
  settings.real_master = true;  // without effect: agents know that this is a server
  settings.min_nodes = first.min_nodes;
  settings.max_nodes = first.max_nodes;
  settings.max_restarts = first.max_restarts;
  settings.times = first.times;
  settings.join_timeout = std::chrono::milliseconds(first.times.join_ms);
  settings.last_call_timeout = std::chrono::milliseconds(first.times.last_call_ms);
  settings.awaits_others = first.times.rejoin;
  settings.regather_timeout = pulse.lost_after();
  // Nodes of a server that was here before have heard nothing of it since.
  settings.unknown_not_before = server_begun + PulseSettings::on_any_clock(pulse.fenced_after());
  return settings;
}

}  // namespace

struct JobServer::Served {
  Served(asio::io_context& io, std::string name, std::uint64_t of, std::unique_ptr<StoreHost> its_store,
         const RoundSettings& settings, PulseSettings pulse, std::function<void(const std::string&)> say)
      : key(std::move(name)),
        number(of),
        job(settings.job),
        store(std::move(its_store)),
        farewell(io),
        rounds(io, settings,
               {[this](int round) { store->begin_round(static_cast<std::uint64_t>(round)); },
                pulse,
                {},
                {},
                false,
                true,
                {},
                std::move(say)}) {}

  const std::string key;
  const std::uint64_t number;
  const std::string job;
  std::shared_ptr<StoreHost> store;
  asio::steady_timer farewell;
  RoundHost rounds;
};

JobServer::JobServer(asio::io_context& io, UniqueFd listener, Options options) : io_(io), options_(std::move(options)) {
  OuterListener::Options outer;
  outer.credential = options_.credential;
  outer.any_job = true;
  outer.enough = enough;
  outer.agent = [this](LinkSocket socket, const std::string& bytes) { agent(std::move(socket), bytes); };
  outer.store = [this](LinkSocket socket, std::string bytes) { store(std::move(socket), std::move(bytes)); };
  outer.log = options_.log;
  outer_ = std::make_unique<OuterListener>(io, std::move(listener), std::move(outer));
}

JobServer::~JobServer() = default;

// ---- coming ---------------------------------------------------------------------------------------------------------

void JobServer::agent(LinkSocket socket, const std::string& received) {
  const std::string key = socket.tls->link().job;
  const auto first = first_join(received);
  if (!first) return;
  const LastPlace& last = first->last;
  // It was cut off, or came late, and the job ended without it.
  if (const auto ended = ended_.find(key);
      ended != ended_.end() && (options_.limits.each_once || (last.round >= 0 && last.term <= ended->second.term)))
    return turn_away(std::move(socket), first->job, fmt::format("the job has ended: {}", ended->second.reason), false);
  if (nodes() >= options_.limits.nodes)
    return turn_away(std::move(socket), first->job,
                     fmt::format("the server has {} nodes, its limit (--max-nodes)", options_.limits.nodes), true);
  const auto found = jobs_.find(key);
  if (found != jobs_.end()) return found->second->rounds.adopt(std::move(socket), received);
  const auto name = options_.credential.identity_job(first->job);
  // The name of those who have typed none: jobs of several people would be one.
  if (first->job == "none")
    return turn_away(std::move(socket), first->job, "this server has many jobs: give yours a name with --rdzv-id",
                     false);
  if (!makes_sense(*first) || !name || *name != key)
    return turn_away(std::move(socket), first->job, "its description makes no sense", false);
  if (const std::string why = why_not(); !why.empty()) return turn_away(std::move(socket), first->job, why, true);
  auto opened = open(key, *first);
  if (!opened) return turn_away(std::move(socket), first->job, opened.error().message, true);
  (*opened)->rounds.adopt(std::move(socket), received);
}

// Why there is no new job now.
std::string JobServer::why_not() const {
  if (draining_) return "the server is about to end and takes no new jobs";
  if (jobs_.size() >= options_.limits.jobs)
    return fmt::format("the server has {} jobs, its limit (--max-jobs)", jobs_.size());
  return "";
}

Result<JobServer::Served*> JobServer::open(const std::string& key, const NodeInfo& first) {
  StoreHost::Options options;
  options.limits = options_.limits.store;
  options.log = [this, job = first.job](std::string_view line) {
    asio::post(io_, [this, text = fmt::format("job {}: {}", printable(job), line)] { options_.log(text); });
  };
  auto its_store = StoreHost::start_without_port(std::move(options));
  if (!its_store) return its_store.error();
  const auto before = ended_.find(key);
  const std::uint64_t ended_term = before == ended_.end() ? 0 : before->second.term;
  ServedPtr& served = jobs_[key];
  const auto say = [this, job = first.job](const std::string& line) {
    if (const auto text =
            reports_.admit(fmt::format("job {}: {}", printable(job), printable(line, 1000)), SteadyClock::now()))
      options_.log(*text);
  };
  served = std::make_unique<Served>(io_, key, ++last_number_, std::move(*its_store),
                                    settings_of(first, ended_term, begun_), pulse_of(first), say);
  served->rounds.on_empty = [this, job = served.get()] { emptied(*job); };
  served->rounds.on_ended = [this, job = served.get()] { ended(*job); };
  options_.news(fmt::format("job {} is opened by host {} (agent {}): {} nodes", printable(first.job),
                            printable(first.host), first.pid, node_range(first.min_nodes, first.max_nodes)));
  return served.get();
}

void JobServer::store(LinkSocket socket, std::string received) {
  const auto found = jobs_.find(socket.tls->link().job);
  if (found == jobs_.end()) return;
  found->second->store->adopt_link(std::move(socket.fd), std::move(received), std::move(socket.tls));
}

void JobServer::turn_away(LinkSocket socket, const std::string& job, const std::string& reason, bool try_again) {
  const std::string line = fmt::format("turned away a node of job {}: {}", printable(job), printable(reason, 1000));
  if (line != std::exchange(last_turned_away_, line))  // it tries again and again
    if (const auto text = reports_.admit(line, SteadyClock::now())) options_.log(*text);
  const auto channel = std::make_shared<RoundChannel>(io_, std::move(socket));
  channel->start({[](const RoundMessage&) {}, [](const std::string&) {}});
  channel->send(msg::Refused{reason, try_again});
  channel->close();
}

// ---- going ----------------------------------------------------------------------------------------------------------

// The job has ended, and its agents were told.
void JobServer::ended(Served& served) {
  const std::string& reason = served.rounds.core().ended_because();
  options_.news(fmt::format("job {} has ended: {}", printable(served.job), printable(reason, 1000)));
  if (served.rounds.core().round() >= 0) remember(served.key, {served.rounds.core().term(), reason});
  if (served.rounds.empty()) return forget_soon(served);
  served.farewell.expires_after(kFarewell);
  served.farewell.async_wait([this, key = served.key, number = served.number](const boost::system::error_code& ec) {
    if (!ec) forget(key, number);
  });
}

// Nodes of a job that has begun may come back.
void JobServer::emptied(Served& served) {
  const RoundCore& core = served.rounds.core();
  if (core.phase() == RoundPhase::ended) return forget_soon(served);
  if (core.round() >= 0) return;
  options_.news(fmt::format("job {} is forgotten: all have left before it began", printable(served.job)));
  forget_soon(served);
}

// Not from within a call of its own.
void JobServer::forget_soon(const Served& served) {
  asio::post(io_, [this, key = served.key, number = served.number] { forget(key, number); });
}

void JobServer::forget(const std::string& key, std::uint64_t number) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end() || found->second->number != number) return;
  const RoundCore& core = found->second->rounds.core();
  // Somebody else may have come meanwhile.
  if (core.phase() != RoundPhase::ended && !found->second->rounds.empty()) return;
  std::shared_ptr<StoreHost> store = found->second->store;
  jobs_.erase(found);
  discard_.add(std::move(store));
  if (draining_ && jobs_.empty()) on_empty_();
}

void JobServer::remember(const std::string& key, Ended ended) {
  if (!ended_.contains(key)) ended_first_.push_back(key);
  ended_[key] = std::move(ended);
  if (ended_first_.size() <= kMostEnded) return;
  ended_.erase(ended_first_.front());
  ended_first_.pop_front();
}

void JobServer::drain(std::function<void()> on_empty) {
  draining_ = true;
  on_empty_ = std::move(on_empty);
  if (jobs_.empty()) on_empty_();
}

void JobServer::end_all(const Verdict& verdict) {
  for (auto& [key, served] : jobs_) served->rounds.close(verdict);
}

std::size_t JobServer::nodes() const {
  std::size_t all = 0;
  for (const auto& [key, served] : jobs_) all += served->rounds.connections();
  return all;
}

std::vector<JobServer::JobNow> JobServer::jobs(std::size_t most) const {
  std::vector<JobNow> all;
  for (const auto& [key, served] : jobs_) {
    if (all.size() == most) break;
    all.emplace_back(served->job, served->rounds.facts());
  }
  return all;
}

}  // namespace dtrain
