#include "rendezvous/round_core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "rendezvous/round_order.h"

namespace dtrain {

namespace {

constexpr int kOwnFailure = 125;  // docs/exit-codes.md
constexpr int kTimeLimit = 124;
// While more nodes than this gather, not everybody is told of each: only when they have become twice as many, and of
// the rest a while later. So a node gets few messages, however many nodes there are.
constexpr int kFewNodes = 16;
constexpr auto kProgress = std::chrono::seconds(10);

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

std::string node_range(int min, int max) { return min == max ? std::to_string(max) : fmt::format("{}:{}", min, max); }

}  // namespace

const char* to_string(RoundPhase phase) {
  switch (phase) {
    case RoundPhase::gathering:
      return "gathering";
    case RoundPhase::running:
      return "running";
    case RoundPhase::stopping:
      return "stopping";
    case RoundPhase::ended:
      return "ended";
  }
  return "?";
}

std::vector<RoundAction> RoundCore::step(const RoundEvent& event, MonoTime now) {
  Actions out;
  if (const auto* said = std::get_if<round_event::Said>(&event)) {
    if (const auto* join = std::get_if<msg::Join>(&said->message)) joined(said->member, join->node, now, out);
    if (const auto* m = std::get_if<msg::Failed>(&said->message)) failed(said->member, *m, now, out);
    if (const auto* m = std::get_if<msg::Over>(&said->message)) over(said->member, *m, now, out);
    if (const auto* m = std::get_if<msg::Leaving>(&said->message)) leaving(said->member, m->signal, now, out);
  } else if (const auto* lost = std::get_if<round_event::Gone>(&event)) {
    gone(lost->member, lost->fenced_at, now, out);
  } else {
    tick(now, out);
  }
  return out;
}

std::optional<MonoTime> RoundCore::deadline() const {
  if (phase_ == RoundPhase::stopping) return all_over() ? fenced_at_ : stop_deadline_;
  if (phase_ != RoundPhase::gathering) return std::nullopt;
  const auto until = last_call_ ? last_call_ : join_deadline_;
  return until && tell_at_ ? std::min(*until, *tell_at_) : until;
}

std::vector<RoundAction> RoundCore::close(const Verdict& verdict) {
  Actions out;
  if (phase_ != RoundPhase::ended) end(verdict, out);
  return out;
}

// ---- joining --------------------------------------------------------------------------------------------------------

// Why this node cannot be one of the job, ever.
std::optional<std::string> RoundCore::objection(const NodeInfo& info) const {
  if (info.job != settings_.job)
    return fmt::format("job {} has this endpoint; choose another port for job {}, or the same --rdzv-id to join it",
                       settings_.job, info.job);
  if ((info.wanted_rank >= 0) != settings_.fixed_ranks)
    return "the job's nodes must all use the same --rdzv-backend (static or c10d)";
  if (info.min_nodes != settings_.min_nodes || info.max_nodes != settings_.max_nodes)
    return fmt::format("--nnodes {} here, but {} at the node that hosts the job; use the same on all nodes",
                       node_range(info.min_nodes, info.max_nodes),
                       node_range(settings_.min_nodes, settings_.max_nodes));
  if (info.max_restarts != settings_.max_restarts)
    return fmt::format("--max-restarts {} here, but {} at the node that hosts the job; use the same on all nodes",
                       info.max_restarts, settings_.max_restarts);
  if (info.workers < 1 || info.workers > 65536 || info.stop_ms < 0 || info.agent_id.empty())
    return "its description makes no sense";
  if (!settings_.fixed_ranks) return std::nullopt;
  if (info.wanted_rank >= settings_.max_nodes)
    return fmt::format("--node-rank {} of {} nodes: it counts from 0", info.wanted_rank, settings_.max_nodes);
  const auto taken = wanted_.find(info.wanted_rank);
  if (taken == wanted_.end()) return std::nullopt;
  const NodeInfo& holder = members_.at(taken->second).info;
  return fmt::format("--node-rank {} is taken by the agent with pid {} on host {}", info.wanted_rank, holder.pid,
                     holder.host);
}

void RoundCore::joined(MemberId id, const NodeInfo& info, MonoTime now, Actions& out) {
  if (members_.contains(id)) return;
  auto refuse = [&](std::string why, bool try_again) {
    out.push_back(round_action::Send{id, msg::Refused{std::move(why), try_again}});
  };
  // First: the endpoint is about to be free, for any job.
  if (phase_ == RoundPhase::ended) return refuse(fmt::format("job {} has just ended", settings_.job), true);
  if (auto why = objection(info)) return refuse(*why, false);
  if (info.last.term > settings_.term) return refuse("another agent hosts the job since", true);
  if (agents_.contains(info.agent_id)) return refuse("the same agent is a node of the job already", false);
  members_[id].info = info;
  agents_[info.agent_id] = id;
  if (settings_.fixed_ranks) wanted_[info.wanted_rank] = id;
  if (phase_ == RoundPhase::gathering) return gather(id, now, out);
  const int in_round = count_.placed;
  // A node whose workers have ended well is not started again for a newcomer: the job is about to end.
  if (phase_ == RoundPhase::running && in_round < settings_.max_nodes && !some_ok_) {
    growth_ = fmt::format("a new node (host {}, agent {}) joins", info.host, info.pid);
    begin_stop(id, {}, 0, now, out);
  }
  out.push_back(round_action::Send{
      id, msg::Waiting{in_round, settings_.min_nodes, settings_.max_nodes, -1, phase_ == RoundPhase::running}});
}

void RoundCore::gather(std::optional<MemberId> newcomer, MonoTime now, Actions& out) {
  if (!join_deadline_) join_deadline_ = now + settings_.join_timeout;
  if (enough() && int(members_.size()) >= settings_.max_nodes) return open_round(out);
  if (!enough()) {
    last_call_.reset();
  } else if (!last_call_) {
    last_call_ = now + settings_.last_call_timeout;
  }
  if (int(members_.size()) <= kFewNodes || int(members_.size()) >= 2 * told_) return tell_waiting(now, out);
  if (!tell_at_) tell_at_ = now + kProgress;
  if (newcomer) out.push_back(round_action::Send{*newcomer, progress(now)});
}

void RoundCore::tell_waiting(MonoTime now, Actions& out) {
  told_ = int(members_.size());
  tell_at_.reset();
  const msg::Waiting waiting = progress(now);
  for (const auto& [id, m] : members_) out.push_back(round_action::Send{id, waiting});
}

msg::Waiting RoundCore::progress(MonoTime now) const {
  const auto until = last_call_ ? last_call_ : join_deadline_;
  const std::int64_t left = until ? std::chrono::duration_cast<std::chrono::milliseconds>(*until - now).count() : -1;
  return {int(members_.size()), settings_.min_nodes, settings_.max_nodes, left, false};
}

// ---- a round --------------------------------------------------------------------------------------------------------

std::vector<MemberId> RoundCore::eligible() const {
  std::vector<MemberId> ids;
  for (const auto& [id, m] : members_) {
    if (!m.leaving) ids.push_back(id);
  }
  // The host is first, then those of the last round in their order, then the others as they came.
  auto order = [&](MemberId id) {
    const Member& m = members_.at(id);
    if (settings_.fixed_ranks) return m.info.wanted_rank;
    if (m.info.agent_id == settings_.host_agent) return -1;
    return m.in_round() ? m.node_rank : settings_.max_nodes;
  };
  std::stable_sort(ids.begin(), ids.end(), [&](MemberId a, MemberId b) { return order(a) < order(b); });
  return ids;
}

std::vector<MemberId> RoundCore::next_to_each_other(const std::vector<MemberId>& ids) const {
  std::vector<NodeSite> sites;
  for (const MemberId id : ids) sites.push_back({members_.at(id).info.topology, members_.at(id).info.host});
  std::vector<MemberId> sorted;
  for (const std::size_t at : neighbours(sites)) sorted.push_back(ids[at]);
  return sorted;
}

bool RoundCore::enough() const {
  const auto host = agents_.find(settings_.host_agent);
  const bool hosted = host != agents_.end() && !members_.at(host->second).leaving;
  return hosted && int(members_.size()) - leaving_ >= settings_.min_nodes;
}

void RoundCore::count(const Member& m, int by) {
  if (m.leaving) leaving_ += by;
  if (!m.in_round()) return;
  count_.placed += by;
  if (m.over) count_.over += by;
  if (m.ok) count_.ok += by;
}

void RoundCore::open_round(Actions& out) {
  auto chosen = eligible();
  if (int(chosen.size()) > settings_.max_nodes) chosen.resize(std::size_t(settings_.max_nodes));
  if (!settings_.fixed_ranks) chosen = next_to_each_other(chosen);
  phase_ = RoundPhase::running;
  ++round_;
  cause_.reset();
  growth_.clear();
  useless_ = some_ok_ = false;
  out.push_back(round_action::FreshStore{});
  place(chosen, out);
}

// Ranks: node after node; within a role: the same, counting only nodes of that role.
void RoundCore::place(const std::vector<MemberId>& chosen, Actions& out) {
  std::map<std::string, int> role_size;
  int world = 0;
  for (auto& [id, m] : members_) m.node_rank = -1, m.over = m.ok = false;
  count_ = {int(chosen.size()), 0, 0};
  for (const MemberId id : chosen) {
    const NodeInfo& info = members_.at(id).info;
    role_size[info.role] += info.workers;
    world += info.workers;
  }
  std::map<std::string, int> role_base;
  int base = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Member& m = members_.at(chosen[i]);
    m.node_rank = int(i);
    int& base_in_role = role_base[m.info.role];
    out.push_back(round_action::Send{
        chosen[i], msg::Open{{round_, restarts_, int(i), int(chosen.size()), base, world, base_in_role,
                              role_size[m.info.role], settings_.master_addr, settings_.master_port},
                             settings_.term}});
    base += m.info.workers;
    base_in_role += m.info.workers;
  }
}

std::string RoundCore::name(const Member& m) const {
  return m.in_round() ? fmt::format("node {} (host {}, agent {})", m.node_rank, m.info.host, m.info.pid)
                      : fmt::format("the node of agent {} on host {}", m.info.pid, m.info.host);
}

// `why`: of a failure, a loss or a stop; an empty reason: the round makes room for a new node.
void RoundCore::begin_stop(MemberId origin, const Verdict& why, int signal, MonoTime now, Actions& out) {
  if (!why.reason.empty() && !cause_) cause_ = why;
  if (phase_ != RoundPhase::running) return;
  phase_ = RoundPhase::stopping;
  stop_deadline_ = now + longest_stop();
  for (const auto& [id, m] : members_) {
    if (id == origin || !m.in_round() || m.over || m.leaving) continue;
    out.push_back(round_action::Send{id, msg::Stop{round_, signal, why.reason.empty() ? growth_ : why.reason}});
  }
}

void RoundCore::failed(MemberId id, const msg::Failed& m, MonoTime now, Actions& out) {
  const auto it = members_.find(id);
  if (it == members_.end() || m.round != round_ || !it->second.in_round() || it->second.over) return;
  const bool counts = phase_ == RoundPhase::running || (phase_ == RoundPhase::stopping && !cause_);
  if (!counts) return;  // a consequence
  const int rank = it->second.node_rank;
  useless_ = m.never_started;
  begin_stop(id, {JobEnd::failure, m.exit_code, rank, fmt::format("{}: {}", name(it->second), m.what)}, 0, now, out);
}

void RoundCore::over(MemberId id, const msg::Over& m, MonoTime now, Actions& out) {
  const auto it = members_.find(id);
  if (it == members_.end() || m.round != round_ || !it->second.in_round() || it->second.over) return;
  if (phase_ != RoundPhase::running && phase_ != RoundPhase::stopping) return;
  count(it->second, -1);
  it->second.over = true;
  it->second.ok = m.ok;
  count(it->second, 1);
  some_ok_ = some_ok_ || m.ok;
  if (phase_ == RoundPhase::running && !m.ok)
    begin_stop(id, {JobEnd::failure, 1, it->second.node_rank, name(it->second) + ": its workers did not end well"}, 0,
               now, out);
  let_go(id, out);
  maybe_over(now, out);
}

void RoundCore::leaving(MemberId id, int signal, MonoTime now, Actions& out) {
  const auto it = members_.find(id);
  if (it == members_.end() || it->second.leaving) return;
  Member& m = it->second;
  m.leaving = true;
  ++leaving_;
  if (!m.in_round()) return gone(id, {}, now, out);
  const Verdict stopped{JobEnd::stopped, 128 + signal, m.node_rank,
                        fmt::format("{} was stopped by {}", name(m), signal_text(signal))};
  // Nobody needs a node whose workers have ended well, unless it hosts the others.
  if (phase_ == RoundPhase::running && m.ok && m.info.agent_id != settings_.host_agent) {
    out.push_back(round_action::Send{id, msg::End{stopped}});
    return remove(id);
  }
  begin_stop(id, stopped, signal, now, out);
  let_go(id, out);
  maybe_over(now, out);
}

void RoundCore::remove(MemberId id) {
  const auto it = members_.find(id);
  count(it->second, -1);
  agents_.erase(it->second.info.agent_id);
  wanted_.erase(it->second.info.wanted_rank);
  members_.erase(it);
}

// One that leaves need not wait for the others, unless it hosts them.
void RoundCore::let_go(MemberId id, Actions& out) {
  const Member& m = members_.at(id);
  if (!cause_ || !m.leaving || !m.over || m.info.agent_id == settings_.host_agent || all_over()) return;
  out.push_back(round_action::Send{id, msg::End{*cause_}});
  remove(id);
}

void RoundCore::gone(MemberId id, MonoTime fenced_at, MonoTime now, Actions& out) {
  const auto it = members_.find(id);
  if (it == members_.end()) return;
  const Member m = it->second;
  const std::string who = name(m);
  remove(id);
  if (phase_ == RoundPhase::gathering && !members_.empty()) return gather(std::nullopt, now, out);
  if (m.in_round() && !m.over) fenced_at_ = std::max(fenced_at_, fenced_at);
  // A node that had ended well or was leaving is no loss.
  if (m.in_round() && !m.ok && !(m.leaving && m.over))
    begin_stop(id, {JobEnd::lost, kOwnFailure, m.node_rank, who + " was lost: the connection to its agent is gone"}, 0,
               now, out);
  maybe_over(now, out);
}

void RoundCore::tick(MonoTime now, Actions& out) {
  if (!deadline() || now < *deadline()) return;
  if (phase_ == RoundPhase::gathering) {
    const auto until = last_call_ ? last_call_ : join_deadline_;
    if (now < *until) return tell_waiting(now, out);
    if (enough()) return open_round(out);
    return end({JobEnd::timeout, kTimeLimit, -1,
                fmt::format("only {} of {} nodes came within {:g} s (--rdzv-conf {})", members_.size(),
                            node_range(settings_.min_nodes, settings_.max_nodes), seconds(settings_.join_timeout),
                            settings_.fixed_ranks ? "timeout" : "join_timeout")},
               out);
  }
  const double limit = seconds(longest_stop());
  std::vector<MemberId> late;
  for (const auto& [id, m] : members_) {
    if (m.in_round() && !m.over) late.push_back(id);
  }
  for (const MemberId id : late) {
    const Member& m = members_.at(id);
    const Verdict verdict{JobEnd::lost, kOwnFailure, m.node_rank,
                          fmt::format("{} did not stop its workers within {:g} s", name(m), limit)};
    if (!cause_) cause_ = verdict;
    out.push_back(round_action::Send{id, msg::End{verdict}});
    remove(id);
  }
  maybe_over(now, out);
}

// ---- the end of a round ---------------------------------------------------------------------------------------------

Duration RoundCore::longest_stop() const {
  Duration longest{};
  for (const auto& [id, m] : members_)
    if (m.in_round()) longest = std::max<Duration>(longest, std::chrono::milliseconds(m.info.stop_ms));
  return longest + settings_.stop_margin;
}

void RoundCore::maybe_over(MonoTime now, Actions& out) {
  if (phase_ == RoundPhase::ended || phase_ == RoundPhase::gathering) return;
  if (!cause_ && all_ok()) return end({JobEnd::success, 0, -1, "all workers ended with exit code 0"}, out);
  if (phase_ != RoundPhase::stopping || !all_over()) return;
  const bool failure = cause_ && cause_->how == JobEnd::failure;
  const bool exhausted = failure && (useless_ || restarts_ >= settings_.max_restarts);
  if (exhausted || !enough()) {
    const Verdict unknown{JobEnd::lost, kOwnFailure, -1, "too few nodes are left"};
    return end(cause_ ? *cause_ : unknown, out);
  }
  if (now < fenced_at_) return;  // Tick comes then
  std::vector<MemberId> leavers;
  for (const auto& [id, m] : members_)
    if (m.leaving) leavers.push_back(id);
  for (const MemberId id : leavers) {
    out.push_back(round_action::Send{id, msg::End{*cause_}});
    remove(id);
  }
  if (failure) ++restarts_;
  open_round(out);
}

void RoundCore::end(const Verdict& verdict, Actions& out) {
  phase_ = RoundPhase::ended;
  for (const auto& [id, m] : members_) out.push_back(round_action::Send{id, msg::End{verdict}});
}

std::string RoundCore::describe() const {
  return fmt::format("round {} {}: {} nodes ({} wanted), restart {}", std::max(round_, 0), to_string(phase_),
                     members_.size(), node_range(settings_.min_nodes, settings_.max_nodes), restarts_);
}

}  // namespace dtrain
