// How nodes come into a job: joining, gathering, and gathering again.
// Tested by test/unit/rendezvous/rounds/round_core_test.cc.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/rounds/round_core.h"

namespace dtrain {

namespace {
// While more nodes than this gather, not everybody is told of each: only when they have become twice as many, and of
// the rest a while later. So a node gets few messages, however many nodes there are.
constexpr int kFewNodes = 16;
constexpr int kMostRounds = 1'000'000'000;
constexpr std::uint64_t kMostTerms = std::uint64_t{1} << 62;
constexpr auto kProgress = std::chrono::seconds(10);
}  // namespace

std::string node_range(int min, int max) { return min == max ? std::to_string(max) : fmt::format("{}:{}", min, max); }

std::optional<RoundCore::Objection> RoundCore::objection(const NodeInfo& info) const {
  // Which setting, as it is at the node and at the host.
  const auto differ = [](const char* what, const std::string& there, const std::string& here) {
    return Objection{
        fmt::format("{} {} here, but {} at the node that hosts the job; use the same on all nodes", what, there, here),
        fmt::format("{} {} there, {} here", what, there, here)};
  };
  if (info.job != settings_.job)
    return Objection{fmt::format("job {} has this endpoint; choose another port for job {}, or the same --rdzv-id to "
                                 "join it",
                                 settings_.job, info.job),
                     fmt::format("it belongs to job {}", info.job)};
  const bool numbered = info.wanted_rank >= 0;
  if (numbered != settings_.fixed_ranks)
    return Objection{
        "the job's nodes must all use the same --rdzv-backend (static or c10d); --node-rank belongs on all of them, "
        "or on none",
        fmt::format("--rdzv-backend {} there, {} here", numbered ? "static" : "c10d",
                    settings_.fixed_ranks ? "static" : "c10d")};
  if (info.min_nodes != settings_.min_nodes || info.max_nodes != settings_.max_nodes)
    return differ("--nnodes", node_range(info.min_nodes, info.max_nodes),
                  node_range(settings_.min_nodes, settings_.max_nodes));
  if (info.real_master && !settings_.real_master)
    return Objection{"--master-addr real here, but not at the node that hosts the job; use the same on all nodes",
                     "--master-addr real there, but not here"};
  if (info.max_restarts != settings_.max_restarts)
    return differ("--max-restarts", std::to_string(info.max_restarts), std::to_string(settings_.max_restarts));
  const NodeTimes &theirs = info.times, &ours = settings_.times;
  const auto pulse = [](const NodeTimes& t) {
    return fmt::format("{:g} s and {}", t.pulse_ms / 1000.0, t.pulse_attempts);
  };
  if (theirs.pulse_ms != ours.pulse_ms || theirs.pulse_attempts != ours.pulse_attempts)
    return differ("--rdzv-conf keep_alive_interval and keep_alive_max_attempt", pulse(theirs), pulse(ours));
  const LastPlace& last = info.last;
  const bool last_is_one = last.round >= -1 && last.round < kMostRounds && last.node_rank >= -1 && last.nodes >= 0 &&
                           last.restarts >= 0 && last.term < kMostTerms;
  if (info.workers < 1 || info.workers > 65536 || info.stop_ms < 0 || info.agent_id.empty() || !last_is_one ||
      info.port < 0 || info.port > 65535)
    return Objection{"its description makes no sense", "its description makes no sense"};
  // An agent that comes back before the host has missed it still has its own number.
  const RoundMember* before = members_.of_agent(info.agent_id);
  const bool has_it = before != nullptr && before->info.wanted_rank == info.wanted_rank;
  return settings_.fixed_ranks && !has_it ? objection_to_rank(info.wanted_rank) : std::nullopt;
}

std::optional<RoundCore::Objection> RoundCore::objection_to_rank(int rank) const {
  const std::string typed = fmt::format("--node-rank {}", rank);
  if (rank >= settings_.max_nodes)
    return Objection{fmt::format("{} of {} nodes: it counts from 0", typed, settings_.max_nodes),
                     fmt::format("{} there, of {} nodes: it counts from 0", typed, settings_.max_nodes)};
  const RoundMember* holder = members_.with_wanted_rank(rank);
  if (holder == nullptr) return std::nullopt;
  const std::string who = fmt::format("the agent with pid {} on host {}", holder->info.pid, holder->info.host);
  return Objection{fmt::format("{} is taken by {}", typed, who), fmt::format("{} there, which {} has", typed, who)};
}

void RoundCore::sent_away(const NodeInfo& info, const std::string& why, Actions& out) {
  const std::string line = refusals_.add(fmt::format("refused a node from {}: {}", info.host, why));
  if (!line.empty()) out.push_back(round_action::Tell{line});
  // Another job's node says nothing about ours.
  const int rank = info.wanted_rank;
  if (info.job != settings_.job || rank < 0 || rank >= settings_.max_nodes) return;
  if (members_.with_wanted_rank(rank) != nullptr) return;
  refused_ranks_.insert(rank);
  if (hopeless()) give_up(out);
}

// Of a static job: each node is here, or has come and was refused for good. Nobody else has one of its numbers.
bool RoundCore::hopeless() const {
  return settings_.fixed_ranks && phase_ == RoundPhase::gathering && !refused_ranks_.empty() &&
         members_.wanted_ranks() + refused_ranks_.size() >= std::size_t(settings_.max_nodes);
}

void RoundCore::give_up(Actions& out) {
  end({JobEnd::refused, kOwnFailure, -1, "no other node can come" + refusals_.summary()}, out);
}

void RoundCore::joined(MemberId id, const NodeInfo& info, MonoTime now, Actions& out) {
  if (members_.find(id) != nullptr) return;
  auto refuse = [&](std::string why, bool try_again) {
    decide(fmt::format("agent {} on host {} was refused: {}", info.pid, info.host, why));
    out.push_back(round_action::Send{id, msg::Refused{std::move(why), try_again}});
  };
  // First: the endpoint is about to be free, for any job.
  if (phase_ == RoundPhase::ended) return refuse(fmt::format("job {} has just ended", settings_.job), true);
  if (const auto why = objection(info)) {
    refuse(why->to_node, false);
    return sent_away(info, why->to_host, out);
  }
  if (info.last.term > term_) {
    if (!standing()) return refuse("another agent hosts the job since", true);
    term_ = info.last.term + 1;  // the server was here before, when its clock said more
  }
  if (info.last.host != 0 && info.last.term == term_ && info.last.host != voter_id(settings_.host_agent))
    return refuse("this is not the agent that hosted the job before", true);
  // It comes back before it was missed. It has stopped its workers, so nothing is left of its last round.
  if (const RoundMember* before = members_.of_agent(info.agent_id)) {
    if (info.agent_id == settings_.host_agent) return refuse("the same agent is already a node of the job", false);
    if (info.attempt < before->info.attempt) return refuse("it has joined since", true);
    lose(before->id, {}, now, out);
  }
  latest_ = std::max(latest_, info.last.round);
  if (phase_ == RoundPhase::gathering) learn(info.last);
  members_.add(id, info);
  refused_ranks_.erase(info.wanted_rank);
  if (members_.size() <= kFewNodes) decide(fmt::format("agent {} on host {} has joined", info.pid, info.host));
  if (phase_ == RoundPhase::gathering) return gather(id, now, out);
  const int in_round = members_.placed();
  make_room(now, out);
  if (phase_ == RoundPhase::running && room_at_)
    out.push_back(round_action::Send{id, not_yet(members_.at(id), now)});
  else
    out.push_back(round_action::Send{
        id, msg::Waiting{in_round, settings_.min_nodes, settings_.max_nodes, -1, phase_ == RoundPhase::running}});
  maybe_over(now, out);
}

// In a round that runs, for one that waits. A node whose workers have ended well is not started again for a newcomer:
// the job is about to end.
void RoundCore::make_room(MonoTime now, Actions& out) {
  room_at_.reset();
  if (phase_ != RoundPhase::running || members_.placed() >= settings_.max_nodes || some_ok_) return;
  const RoundMember* first = nullptr;
  for (const auto& [id, m] : members_.all()) {
    if (m.in_round() || m.leaving) continue;
    const MonoTime at = patience_.welcome_at(m.info.agent_id, now);
    if (room_at_ && at >= *room_at_) continue;
    room_at_ = at;
    first = &m;
  }
  if (!room_at_ || *room_at_ > now) return;
  room_at_.reset();
  patience_.stopped(now);
  growth_ = fmt::format("a new node (host {}, agent {}) joins", first->info.host, first->info.pid);
  begin_stop(first->id, {}, 0, now, out);
}

// It has to wait until the others may be stopped for it.
msg::Waiting RoundCore::not_yet(const RoundMember& m, MonoTime now) {
  const Duration left = patience_.welcome_at(m.info.agent_id, now) - now;
  const int losses = patience_.losses(m.info.agent_id, now);
  const std::string why = losses >= RoundPatience::kLosses
                              ? fmt::format("its node was lost {} times in the last minutes", losses)
                              : "others were stopped for new nodes a moment ago";
  decide(fmt::format("{} waits {:.0f} s before the others are stopped for it: {}", name(m), in_seconds(left), why));
  return {members_.placed(),
          settings_.min_nodes,
          settings_.max_nodes,
          std::chrono::duration_cast<std::chrono::milliseconds>(left).count(),
          true,
          why,
          ""};
}

// It may have been in rounds that this host has not heard of.
void RoundCore::learn(const LastPlace& last) {
  if (last.round <= round_) return;
  round_ = last.round;
  restarts_ = std::max(restarts_, last.restarts);
  nodes_ = last.nodes;
  again_ = true;
  fenced_at_ = std::max(fenced_at_, settings_.unknown_not_before);
}

void RoundCore::gather(std::optional<MemberId> newcomer, MonoTime now, Actions& out) {
  if (hopeless()) return give_up(out);
  if (!join_deadline_) join_deadline_ = now + settings_.join_timeout;
  // The host that this one follows is hardly alive.
  const int last = follows_ ? std::max(nodes_ - 1, settings_.min_nodes) : nodes_;
  const int wanted = again_ ? std::min(last, settings_.max_nodes) : settings_.max_nodes;
  const bool complete = enough() && int(members_.size()) >= wanted;
  if (complete && now >= fenced_at_) return open_round(out);
  if (!enough()) {
    last_call_.reset();
  } else if (complete) {
    last_call_ = fenced_at_;
  } else if (!last_call_) {
    last_call_ = std::max(fenced_at_, now + (again_ ? settings_.regather_timeout : settings_.last_call_timeout));
  }
  if (int(members_.size()) <= kFewNodes || int(members_.size()) >= 2 * told_) return tell_waiting(now, out);
  if (!tell_at_) tell_at_ = now + kProgress;
  if (newcomer) out.push_back(round_action::Send{*newcomer, progress(now)});
}

void RoundCore::tell_waiting(MonoTime now, Actions& out) {
  told_ = int(members_.size());
  tell_at_.reset();
  const msg::Waiting waiting = progress(now);
  for (const auto& [id, m] : members_.all()) out.push_back(round_action::Send{id, waiting});
}

msg::Waiting RoundCore::progress(MonoTime now) const {
  const auto until = last_call_ ? last_call_ : join_deadline_;
  const std::int64_t left = until ? std::chrono::duration_cast<std::chrono::milliseconds>(*until - now).count() : -1;
  // Names are for those who all get them; one of thousands comes in between.
  const bool all = int(members_.size()) == told_ || int(members_.size()) <= kFewNodes;
  const std::string names = !all ? "" : settings_.fixed_ranks ? missing() : here();
  return {
      int(members_.size()), settings_.min_nodes, settings_.max_nodes, left, false, cause_ ? cause_->reason : "", names};
}

// Too few nodes are left of a round, and nothing is left of it at those.
void RoundCore::regather(MonoTime now, Actions& out) {
  phase_ = RoundPhase::gathering;
  decide("too few nodes are left: others are awaited");
  again_ = true;
  told_ = 0;
  last_call_.reset();
  join_deadline_.reset();
  members_.end_round({term_, round_, -1, nodes_, restarts_});
  gather(std::nullopt, now, out);
}

}  // namespace dtrain
