#include "rendezvous/rounds/round_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "rendezvous/base/signal_name.h"
#include "rendezvous/rounds/round_order.h"

namespace dtrain {

namespace {

constexpr int kTimeLimit = 124;

std::string signal_text(int signal) {
  const char* name = signal_abbreviation(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

}  // namespace

RoundCore::RoundCore(RoundSettings settings)
    : settings_(std::move(settings)),
      term_(settings_.term),
      round_(settings_.after.round),
      restarts_(settings_.after.restarts),
      nodes_(settings_.after.nodes),
      again_(nodes_ > 0),
      follows_(nodes_ > 0),
      fenced_at_(settings_.after.not_before) {}

std::vector<RoundAction> RoundCore::step(const RoundEvent& event, MonoTime now) {
  Actions out;
  now_ = now;
  const RoundPhase before = phase_;
  if (const auto* said = std::get_if<round_event::Said>(&event)) {
    if (const auto* join = std::get_if<msg::Join>(&said->message)) joined(said->member, join->node, now, out);
    if (const auto* m = std::get_if<msg::Failed>(&said->message)) failed(said->member, *m, now, out);
    if (const auto* m = std::get_if<msg::Over>(&said->message)) over(said->member, *m, now, out);
    if (const auto* m = std::get_if<msg::Leaving>(&said->message)) leaving(said->member, *m, now, out);
  } else if (const auto* lost = std::get_if<round_event::Gone>(&event)) {
    gone(lost->member, lost->fenced_at, now, out);
  } else {
    tick(now, out);
  }
  if (phase_ != before || phase_since_ == MonoTime{}) phase_since_ = now;
  return out;
}

std::optional<MonoTime> RoundCore::deadline() const {
  if (phase_ == RoundPhase::stopping) return members_.all_over() ? fenced_at_ : stop_deadline_;
  if (phase_ == RoundPhase::running) return room_at_;
  if (phase_ != RoundPhase::gathering) return std::nullopt;
  const auto until = last_call_ ? last_call_ : join_deadline_;
  return until && tell_at_ ? std::min(*until, *tell_at_) : until;
}

std::vector<RoundAction> RoundCore::close(const Verdict& verdict) {
  Actions out;
  if (phase_ != RoundPhase::ended) end(verdict, out);
  return out;
}

// ---- a round --------------------------------------------------------------------------------------------------------

std::vector<MemberId> RoundCore::eligible() const {
  std::vector<MemberId> ids;
  for (const auto& [id, m] : members_.all()) {
    if (!m.leaving) ids.push_back(id);
  }
  // The host is first, then those of the last round in their order, then the others as they came.
  auto order = [&](MemberId id) {
    const RoundMember& m = members_.at(id);
    if (settings_.fixed_ranks) return m.info.wanted_rank;
    if (m.info.agent_id == settings_.host_agent) return -1;
    if (m.in_round()) return m.node_rank;
    return m.info.last.round == round_ && m.info.last.node_rank >= 0 ? m.info.last.node_rank : settings_.max_nodes;
  };
  std::stable_sort(ids.begin(), ids.end(), [&](MemberId a, MemberId b) { return order(a) < order(b); });
  return ids;
}

std::vector<MemberId> RoundCore::next_to_each_other(const std::vector<MemberId>& ids) const {
  std::vector<NodeSite> sites;
  sites.reserve(ids.size());
  for (const MemberId id : ids) sites.push_back({members_.at(id).info.topology, members_.at(id).info.host});
  std::vector<MemberId> sorted;
  sorted.reserve(ids.size());
  for (const std::size_t at : neighbours(sites)) sorted.push_back(ids[at]);
  return sorted;
}

bool RoundCore::hosted() const {
  if (standing()) return true;
  const RoundMember* host = members_.of_agent(settings_.host_agent);
  return host != nullptr && !host->leaving;
}

bool RoundCore::enough() const { return hosted() && members_.staying() >= settings_.min_nodes; }

void RoundCore::open_round(Actions& out) {
  auto chosen = eligible();
  if (int(chosen.size()) > settings_.max_nodes) chosen.resize(std::size_t(settings_.max_nodes));
  if (!settings_.fixed_ranks) chosen = next_to_each_other(chosen);
  phase_ = RoundPhase::running;
  round_ = std::max(round_, latest_) + 1;
  decide(opening_reason(chosen.size()));
  cause_.reset();
  blamed_ = left_ = msg::kNobody;
  growth_.clear();
  room_at_.reset();
  useless_ = some_ok_ = again_ = follows_ = false;
  nodes_ = int(chosen.size());
  out.push_back(round_action::FreshStore{});
  place(chosen, out);
}

// Ranks: node after node; within a role: the same, counting only nodes of that role.
void RoundCore::place(const std::vector<MemberId>& chosen, Actions& out) {
  std::map<std::string, int> role_size;
  int world = 0;
  bool uniform = true;
  members_.clear_places();
  for (const MemberId id : chosen) {
    const NodeInfo& info = members_.at(id).info;
    role_size[info.role] += info.workers;
    world += info.workers;
    uniform = uniform && info.workers == members_.at(chosen.front()).info.workers;
  }
  electorate_ = electorate_of(chosen);
  const std::string& master_addr =
      settings_.master_addr.empty() ? members_.at(chosen.front()).info.seen_at : settings_.master_addr;
  std::map<std::string, int> role_base;
  int base = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    members_.place(chosen[i], int(i), base);
    const RoundMember& m = members_.at(chosen[i]);
    int& base_in_role = role_base[m.info.role];
    out.push_back(round_action::Send{
        chosen[i], msg::Open{{round_, restarts_, int(i), int(chosen.size()), base, world, base_in_role,
                              role_size[m.info.role], master_addr, settings_.master_port, uniform},
                             term_,
                             electorate_}});
    base += m.info.workers;
    base_in_role += m.info.workers;
  }
}

// The host is the first of them, or at least one: it is a voter.
Electorate RoundCore::electorate_of(const std::vector<MemberId>& chosen) const {
  Electorate electorate;
  if (!settings_.succession) return electorate;
  electorate.host = voter_id(settings_.host_agent);
  for (std::size_t i = 0; i < std::min(chosen.size(), kMostVoters); ++i) {
    const NodeInfo& info = members_.at(chosen[i]).info;
    electorate.voters.push_back(voter_id(info.agent_id));
    if (i < kMostCandidates) electorate.candidates.push_back({electorate.voters.back(), info.address, info.port});
  }
  return electorate;
}

std::string RoundCore::name(const RoundMember& m) const {
  return m.in_round() ? fmt::format("node {} (host {}, agent {})", m.node_rank, m.info.host, m.info.pid)
                      : fmt::format("the node of agent {} on host {}", m.info.pid, m.info.host);
}

// `why`: of a failure, a loss or a stop; an empty reason: the round makes room for a new node.
void RoundCore::begin_stop(MemberId origin, const Verdict& why, int signal, MonoTime now, Actions& out) {
  if (!why.reason.empty() && !cause_) cause_ = why;
  if (phase_ != RoundPhase::running) return;
  phase_ = RoundPhase::stopping;
  decide(fmt::format("round {} is stopped: {}", round_, why.reason.empty() ? growth_ : why.reason));
  stop_deadline_ = now + longest_stop();
  for (const auto& [id, m] : members_.all()) {
    // To one that is over, its own part in it is told: for its report.
    if (id == origin || !m.in_round() || (m.over && !m.has_rank(blamed_)) || m.leaving) continue;
    out.push_back(round_action::Send{
        id, msg::Stop{round_, signal, why.reason.empty() ? growth_ : why.reason, blamed_, blamed_for_}});
  }
}

void RoundCore::over(MemberId id, const msg::Over& m, MonoTime now, Actions& out) {
  const RoundMember* member = members_.find(id);
  if (member == nullptr || m.round != round_ || !member->in_round() || member->over) return;
  if (phase_ != RoundPhase::running && phase_ != RoundPhase::stopping) return;
  members_.set_over(id, m.ok);
  some_ok_ = some_ok_ || m.ok;
  // The news of an end with 0 may come after that of a failure which it caused.
  if (member->has_rank(m.left) && (phase_ == RoundPhase::running || left_ == msg::kNobody)) left_ = m.left;
  if (phase_ == RoundPhase::running && !m.ok)
    begin_stop(id, {JobEnd::failure, 1, member->node_rank, name(*member) + ": its workers failed"}, 0, now, out);
  let_go(id, out);
  maybe_over(now, out);
}

// The failure that is stopping this round may have come of what happens to this node, which was not over.
bool RoundCore::caused_failure(const RoundMember& m) const {
  return phase_ == RoundPhase::stopping && cause_ && cause_->how == JobEnd::failure && !useless_ &&
         cause_->node_rank != m.node_rank && m.in_round() && !m.over;
}

// Without its engine a node is lost, as one whose connection breaks; but nobody can do without the host.
Verdict RoundCore::why_it_leaves(const RoundMember& m, int signal) const {
  if (signal == 0 && m.info.agent_id != settings_.host_agent)
    return {JobEnd::lost, kOwnFailure, m.node_rank, name(m) + " was lost: the engine that started it has gone"};
  if (signal == 0) signal = SIGTERM;
  return {JobEnd::stopped, 128 + signal, m.node_rank,
          fmt::format("{} was stopped by {}", name(m), signal_text(signal))};
}

void RoundCore::leaving(MemberId id, const msg::Leaving& said, MonoTime now, Actions& out) {
  const RoundMember* member = members_.find(id);
  if (member == nullptr || member->leaving || phase_ == RoundPhase::ended) return;
  const RoundMember& m = *member;
  members_.set_leaving(id);
  const Verdict why = why_it_leaves(m, said.signal);
  if (!m.in_round()) {
    out.push_back(round_action::Send{id, msg::End{why}});
    gone(id, {}, now, out);
    return standing() && members_.empty() ? end(why, out) : void();
  }
  // Nobody needs a node whose workers have ended well, unless it hosts the others.
  if (phase_ == RoundPhase::running && m.ok && m.info.agent_id != settings_.host_agent) {
    out.push_back(round_action::Send{id, msg::End{why}});
    return members_.remove(id);
  }
  if (said.running && caused_failure(m)) cause_ = why;
  begin_stop(id, why, said.signal, now, out);
  let_go(id, out);
  maybe_over(now, out);
}

// One that leaves need not wait for the others, unless it hosts them.
void RoundCore::let_go(MemberId id, Actions& out) {
  const RoundMember& m = members_.at(id);
  if (!cause_ || !m.leaving || !m.over || m.info.agent_id == settings_.host_agent || members_.all_over()) return;
  out.push_back(round_action::Send{id, msg::End{*cause_}});
  members_.remove(id);
}

void RoundCore::gone(MemberId id, MonoTime fenced_at, MonoTime now, Actions& out) {
  if (members_.find(id) == nullptr) return;
  lose(id, fenced_at, now, out);
  if (phase_ == RoundPhase::gathering && (standing() || !members_.empty())) return gather(std::nullopt, now, out);
  maybe_over(now, out);
}

void RoundCore::lose(MemberId id, MonoTime fenced_at, MonoTime now, Actions& out) {
  const RoundMember m = members_.at(id);
  if (!m.in_round()) decide(name(m) + " has left");
  const Verdict lost{JobEnd::lost, kOwnFailure, m.node_rank,
                     name(m) + " was lost: the connection to its agent is gone"};
  if (caused_failure(m)) cause_ = lost;
  members_.remove(id);
  if (m.in_round() && !m.over) fenced_at_ = std::max(fenced_at_, fenced_at);
  // A node that had ended well or was leaving is no loss.
  if (!m.in_round() || m.ok || (m.leaving && m.over)) return;
  patience_.lost(m.info.agent_id, now);
  begin_stop(id, lost, 0, now, out);
}

Verdict RoundCore::nobody_came() const {
  const double limit = in_seconds(settings_.join_timeout);
  const char* conf = settings_.fixed_ranks ? "timeout" : "join_timeout";
  const std::string wanted = node_range(settings_.min_nodes, settings_.max_nodes);
  if (!cause_)
    return {JobEnd::timeout, kTimeLimit, -1,
            fmt::format("only {} of {} nodes came within {:g} s (--rdzv-conf {}){}", members_.size(), wanted, limit,
                        conf, refusals_.empty() ? settings_.in_vain : refusals_.summary())};
  Verdict verdict = *cause_;
  verdict.reason += fmt::format("; {} of {} nodes are left, and no other came within {:g} s (--rdzv-conf {}){}",
                                members_.size(), wanted, limit, conf, refusals_.summary());
  return verdict;
}

void RoundCore::tick(MonoTime now, Actions& out) {
  if (!deadline() || now < *deadline()) return;
  if (phase_ == RoundPhase::running) {
    make_room(now, out);
    return maybe_over(now, out);
  }
  if (phase_ == RoundPhase::gathering) {
    const auto until = last_call_ ? last_call_ : join_deadline_;
    if (now < *until) return tell_waiting(now, out);
    if (enough()) return open_round(out);
    return end(nobody_came(), out);
  }
  const double limit = in_seconds(longest_stop());
  std::vector<MemberId> late;
  for (const auto& [id, m] : members_.all()) {
    if (m.in_round() && !m.over) late.push_back(id);
  }
  for (const MemberId id : late) {
    const RoundMember& m = members_.at(id);
    const Verdict verdict{JobEnd::lost, kOwnFailure, m.node_rank,
                          fmt::format("{} did not stop its workers within {:g} s", name(m), limit)};
    if (!cause_) cause_ = verdict;
    decide("given up: " + verdict.reason);
    out.push_back(round_action::Send{id, msg::End{verdict}});
    members_.remove(id);
  }
  maybe_over(now, out);
}

// ---- the end of a round ---------------------------------------------------------------------------------------------

Duration RoundCore::longest_stop() const {
  Duration longest{};
  for (const auto& [id, m] : members_.all())
    if (m.in_round()) longest = std::max<Duration>(longest, std::chrono::milliseconds(m.info.stop_ms));
  return longest + settings_.stop_margin;
}

void RoundCore::maybe_over(MonoTime now, Actions& out) {
  if (phase_ == RoundPhase::ended || phase_ == RoundPhase::gathering) return;
  if (!cause_ && some_ok_ && members_.all_ok())
    return end({JobEnd::success, 0, -1, "all workers ended with exit code 0"}, out);
  if (phase_ != RoundPhase::stopping || !members_.all_over()) return;
  blame_who_left(out);
  const bool failure = cause_ && cause_->how == JobEnd::failure;
  const bool exhausted = failure && (useless_ || restarts_ >= settings_.max_restarts);
  const bool waits = settings_.awaits_others && hosted() && !(cause_ && cause_->how == JobEnd::stopped);
  if (exhausted || (!enough() && !waits)) {
    const Verdict unknown{JobEnd::lost, kOwnFailure, -1, "too few nodes are left"};
    return end(cause_ ? *cause_ : unknown, out);
  }
  if (now < fenced_at_) return;  // Tick comes then
  std::vector<MemberId> leavers;
  for (const auto& [id, m] : members_.all())
    if (m.leaving) leavers.push_back(id);
  for (const MemberId id : leavers) {
    out.push_back(round_action::Send{id, msg::End{*cause_}});
    members_.remove(id);
  }
  if (failure) ++restarts_;
  if (!enough()) return regather(now, out);
  open_round(out);
}

void RoundCore::end(const Verdict& verdict, Actions& out) {
  phase_ = RoundPhase::ended;
  ended_because_ = verdict.reason;
  decide("the job ends: " + verdict.reason);
  for (const auto& [id, m] : members_.all()) out.push_back(round_action::Send{id, msg::End{verdict}});
}

std::string RoundCore::describe() const {
  return fmt::format("round {} {}: {} nodes ({} wanted), restart {}", std::max(round_, 0), to_string(phase_),
                     members_.size(), node_range(settings_.min_nodes, settings_.max_nodes), restarts_);
}

}  // namespace dtrain
