// RoundCore in a simulated job, and what must hold of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "test/sim/job_world.h"
#include "test/sim/neighbours.h"

namespace dtrain::sim {

using namespace std::chrono_literals;

void World::hear(MemberId id, const RoundMessage& message) {
  Link& link = links_.at(id);
  link.heard = host_clock();
  if (link.silence) link.silence->heard(link.heard);
  if (const auto* join = std::get_if<msg::Join>(&message)) {
    link.join = *join;
    on(agents_.front(), now_ + 3s, [this, id] {
      if (!links_.at(id).join || !links_.at(id).host_open) return;
      close_from_host(id);
    });
    return tell(id, msg::Welcome{});
  }
  if (std::holds_alternative<msg::Here>(message)) {
    watch_silence(id);
    return step(round_event::Said{id, *std::exchange(link.join, std::nullopt)});
  }
  if (const auto* ping = std::get_if<msg::Ping>(&message)) return tell(id, msg::Pong{ping->sent});
  step(round_event::Said{id, message});
}

void World::gone(MemberId id) {
  Link& link = links_.at(id);
  if (!link.host_open) return;
  link.host_open = false;
  const MonoTime fenced_at = link.silence ? link.silence->fenced_at() : MonoTime{};
  step(round_event::Gone{id, fenced_at});
}

void World::step(const RoundEvent& event) {
  const RoundPhase before = core_->phase();
  stepped_round_ = core_->round();
  const bool tick = std::holds_alternative<round_event::Tick>(event);
  const auto* said = std::get_if<round_event::Said>(&event);
  note(fmt::format("{} <- {}", core_->describe(),
                   tick              ? "tick"
                   : said == nullptr ? fmt::format("gone {}", std::get<round_event::Gone>(event).member)
                                     : fmt::format("{} says {}", links_.at(said->member).agent->info.agent_id,
                                                   said->message.index())));
  shadow_before(event);
  perform(core_->step(event, host_clock()), before);
  if (before == RoundPhase::running && core_->round() == stepped_round_ && core_->phase() == RoundPhase::stopping &&
      !rounds_[stepped_round_].cause)
    grew();
  if (tick && core_->deadline()) require(*core_->deadline() > host_clock(), "the host's timer does not rest");
  check_phase();
  arm_host();
}

// A round that ran is stopped for a node that waits.
void World::grew() {
  const MonoTime now = host_clock();
  growths_.push_back(now);
  if (growths_.size() > 6) growths_.pop_front();
  require(growths_.size() < 6 || now - growths_.front() >= 30s, "everybody is stopped for new nodes again and again");
  const auto welcome = [now](const auto& each) {
    const auto& [agent, rank, over, ok, leaving] = each.second;
    if (rank >= 0 || leaving) return false;
    const auto many =
        std::count_if(agent->losses.begin(), agent->losses.end(), [now](MonoTime at) { return now - at < 10min; });
    return many < 3 || now - agent->losses.back() >= std::min<Duration>(30s * (1 << (many - 3)), 10min);
  };
  require(std::any_of(shadow_.begin(), shadow_.end(), welcome), "everybody is stopped for a node that is lost again");
  ++tally_.growths;
}

void World::arm_host() {
  const int generation = ++host_timer_;
  if (!core_->deadline()) return;
  on(agents_.front(), agents_.front().clock.when(*core_->deadline()), [this, generation] {
    if (generation == host_timer_) step(round_event::Tick{});
  });
}

// ---- the shadow -----------------------------------------------------------------------------------------------------

void World::note_cause(JobEnd how, int rank, int exit_code) {
  if (stepped_round_ < 0 || core_->phase() == RoundPhase::ended) return;
  Round& round = rounds_[stepped_round_];
  if (round.cause) return;
  round.cause = Verdict{how, exit_code, rank, ""};
}

void World::shadow_before(const RoundEvent& event) {
  if (const auto* said = std::get_if<round_event::Said>(&event)) {
    if (std::holds_alternative<msg::Join>(said->message)) {
      Agent* agent = links_.at(said->member).agent;
      const auto before =
          std::find_if(shadow_.begin(), shadow_.end(), [&](const auto& each) { return each.second.agent == agent; });
      if (before != shadow_.end() && core_->phase() != RoundPhase::ended) shadow_gone(before->first);
      shadow_[said->member].agent = agent;
      if (!waits_since_) waits_since_ = host_clock();
    } else if (const auto it = shadow_.find(said->member); it != shadow_.end()) {
      shadow_said(it->second, said->message);
    }
  } else if (const auto* lost = std::get_if<round_event::Gone>(&event)) {
    shadow_gone(lost->member);
  }
}

void World::shadow_gone(MemberId id) {
  const auto it = shadow_.find(id);
  if (it == shadow_.end()) return;
  const Shadow s = it->second;
  shadow_.erase(it);
  if (caused_failure(s)) rounds_[stepped_round_].cause.reset();
  if (s.rank < 0 || s.ok || (s.leaving && s.over)) return;
  s.agent->losses.push_back(host_clock());
  note_cause(JobEnd::lost, s.rank, 125);
}

// A failure that was told before it was known that this node goes.
bool World::caused_failure(const Shadow& s) const {
  const auto round = rounds_.find(core_->round());
  if (core_->phase() != RoundPhase::stopping || round == rounds_.end() || !round->second.cause) return false;
  const Verdict& cause = *round->second.cause;
  return cause.how == JobEnd::failure && !round->second.never_started && cause.node_rank != s.rank && s.rank >= 0 &&
         !s.over;
}

void World::shadow_said(Shadow& s, const RoundMessage& message) {
  const int round = core_->round();
  if (const auto* failed = std::get_if<msg::Failed>(&message)) {
    if (failed->round != round || s.rank < 0 || s.over) return;
    if (!rounds_[round].cause) rounds_[round].never_started = failed->never_started;
    note_cause(JobEnd::failure, s.rank, failed->exit_code);
  } else if (const auto* over = std::get_if<msg::Over>(&message)) {
    if (over->round != round || s.rank < 0 || s.over) return;
    s.over = true;
    s.ok = over->ok;
    if (over->ok) require(s.agent->workers_ok || s.agent->started_round != round, "a node says that all went well");
    require(over->ok || core_->phase() != RoundPhase::running, "a node is over, and has not said why");
  } else if (const auto* leaving = std::get_if<msg::Leaving>(&message)) {
    if (s.leaving) return;
    s.leaving = true;
    const bool harmless = core_->phase() == RoundPhase::running && s.ok && s.agent != &agents_.front();
    if (leaving->running && caused_failure(s)) rounds_[round].cause.reset();
    if (s.rank >= 0 && !harmless) note_cause(JobEnd::stopped, s.rank, 128 + leaving->signal);
  }
}

int World::eligible() const {
  return int(std::count_if(shadow_.begin(), shadow_.end(), [](const auto& s) { return !s.second.leaving; }));
}

bool World::enough() const {
  const bool hosted = std::any_of(shadow_.begin(), shadow_.end(), [&](const auto& s) {
    return s.second.agent == &agents_.front() && !s.second.leaving;
  });
  return hosted && eligible() >= settings_.min_nodes;
}

// ---- what the core wants --------------------------------------------------------------------------------------------

void World::perform(const std::vector<RoundAction>& actions, RoundPhase before) {
  std::vector<std::pair<MemberId, NodePlace>> opened;
  bool fresh = false;
  std::optional<Verdict> ended;
  MemberId last = 0;
  for (const auto& action : actions) {
    if (std::holds_alternative<round_action::FreshStore>(action)) {
      require(!fresh, "two stores");
      fresh = true;
      continue;
    }
    if (std::holds_alternative<round_action::Tell>(action)) continue;
    const auto& send = std::get<round_action::Send>(action);
    if (const auto* open = std::get_if<msg::Open>(&send.message)) {
      require(fresh, "a round without a fresh store");
      opened.emplace_back(send.member, open->place);
    }
    if (std::holds_alternative<msg::Refused>(send.message)) shadow_.erase(send.member);
    if (const auto* end = std::get_if<msg::End>(&send.message)) {
      // One that leaves or is given up hears why; the job's own end comes last.
      if (ended && *ended != end->verdict) dismissed(last, *ended);
      ended = end->verdict;
      last = send.member;
    }
  }
  if (ended && core_->phase() != RoundPhase::ended) dismissed(last, *ended), ended.reset();
  require(fresh == !opened.empty(), "a store without a round");
  if (before != RoundPhase::gathering && core_->phase() == RoundPhase::gathering) regathered();
  if (ended) check_verdict(*ended, before);
  if (fresh) check_opened(opened);
  for (const auto& action : actions)
    if (const auto* send = std::get_if<round_action::Send>(&action)) tell(send->member, send->message);
}

// It goes, the job stays.
void World::dismissed(MemberId id, const Verdict& verdict) {
  const auto it = shadow_.find(id);
  require(it != shadow_.end(), "an end for a stranger");
  const Shadow s = it->second;
  shadow_.erase(it);
  if (s.leaving) return;
  require(!s.over && verdict.how == JobEnd::lost, "a node is sent away that has stopped its workers");
  require(s.agent->troubled || agents_.front().troubled || !s.agent->processes.empty(), "a healthy node is given up");
  note_cause(JobEnd::lost, s.rank, 125);
}

// Too few are left, and others are awaited.
void World::regathered() {
  const auto& cause = rounds_[core_->round()].cause;
  require(settings_.awaits_others && !enough(), "it waits for others, and need not");
  require(cause && cause->how != JobEnd::stopped, "it waits although the user has stopped it");
  for (const auto& [id, s] : shadow_) require(s.rank < 0 || s.over, "it waits, and a node is not done");
  for (auto& [id, s] : shadow_) s.rank = -1, s.over = s.ok = false;
  waits_since_ = host_clock();
  again_ = true;
  ++tally_.waits;
}

void World::check_opened(const std::vector<std::pair<MemberId, NodePlace>>& opened) {
  const int number = opened.front().second.round;
  require(number == tally_.rounds, "rounds are counted one by one");
  require(int(opened.size()) == std::min(settings_.max_nodes, eligible()), "a node that could be in the round is not");
  require(enough(), "too few nodes, or no host");
  const int charged = number > 0 && rounds_[number - 1].cause && rounds_[number - 1].cause->how == JobEnd::failure;
  require(core_->restarts() == tally_.restarts + charged, "a restart that is not charged, or should not be");
  require(core_->restarts() <= settings_.max_restarts, "more restarts than the user gave");
  require(number == 0 || !rounds_[number - 1].never_started || !charged, "what cannot start is started again");
  tally_.restarts = core_->restarts();
  for (const auto& [id, s] : shadow_) {
    require(s.rank < 0 || s.over, "a node is not done with the last round");
    if (s.agent->alive && !s.agent->troubled) require(s.agent->processes.empty(), "a node has old workers");
  }
  for (auto& [id, s] : shadow_) s.rank = -1, s.over = s.ok = false;
  Round& round = rounds_[number];
  int world = 0;
  std::map<std::string, int> roles;
  std::vector<const Agent*> order;
  std::vector<NodeSite> sites;
  for (const auto& [id, place] : opened) {
    require(shadow_.count(id) != 0 && !shadow_[id].leaving, "a round with a node that is not there");
    Shadow& s = shadow_[id];
    s.rank = int(order.size());
    const NodeInfo& info = s.agent->info;
    require(place.round == number && place.node_rank == s.rank && place.nodes == int(opened.size()), "node ranks");
    require(place.base_rank == world && place.base_role_rank == roles[info.role], "ranks are not dense");
    require(place.restart_count == core_->restarts(), "the nodes differ in restarts");
    if (settings_.fixed_ranks) require(info.wanted_rank == s.rank, "not the rank that it was given");
    world += info.workers;
    roles[info.role] += info.workers;
    order.push_back(s.agent);
    sites.push_back({info.topology, info.host});
    round.places[s.agent] = place;
  }
  for (const auto& [id, place] : opened)
    require(place.world_size == world && place.role_world_size == roles[shadow_[id].agent->info.role], "world sizes");
  require(settings_.fixed_ranks || test::are_neighbours(sites), "nodes of one topology are not neighbours");
  round.world = world;
  round.nodes = int(opened.size());
  check_order(order);
  last_order_ = order;
  ++tally_.rounds;
}

// Those who stay keep their order, and one of them is the first.
void World::check_order(const std::vector<const Agent*>& order) const {
  if (settings_.fixed_ranks || last_order_.empty()) return;
  std::vector<const Agent*> before, after;
  for (const Agent* a : last_order_)  // one that never heard of its place comes back as a new one
    if (std::find(order.begin(), order.end(), a) != order.end() && a->place && a->place->round == tally_.rounds - 1)
      before.push_back(a);
  for (const Agent* a : order)
    if (std::find(before.begin(), before.end(), a) != before.end()) after.push_back(a);
  require(before == after, "the survivors' order changed");
  // The host may have taken itself for lost, after it did not run for long.
  const bool hosts = order.front() == &agents_.front();
  require(after.empty() || hosts || order.front() == after.front(), "a newcomer is the first");
}

void World::check_verdict(const Verdict& verdict, RoundPhase before) {
  note(fmt::format("the end: {} {} {}", int(verdict.how), verdict.exit_code, verdict.reason));
  require(!verdict_, "the job ends twice");
  verdict_ = verdict;
  tally_.ends.insert(std::to_string(int(verdict.how)));
  require(!verdict.reason.empty(), "an end without a reason");
  require((verdict.how == JobEnd::success) == (verdict.exit_code == 0), "exit code 0 means success");
  if (before == RoundPhase::gathering) {
    const auto& cause = rounds_[core_->round()].cause;
    require(!enough() && verdict.how == (again_ && cause ? cause->how : JobEnd::timeout), "no reason to give up");
    require(waits_since_ && host_clock() >= *waits_since_ + settings_.join_timeout, "it gives up too early");
    return;
  }
  Round& round = rounds_[core_->round()];
  if (verdict.how == JobEnd::success) {
    require(!round.cause, "success after a failure");
    for (const auto& [id, s] : shadow_) require(s.rank < 0 || s.ok, "success, but not everywhere");
    return;
  }
  for (auto it = shadow_.begin(); it != shadow_.end();) {
    const Shadow s = it->second;
    const bool late = s.rank >= 0 && !s.over && verdict.how == JobEnd::lost && verdict.node_rank == s.rank;
    if (late && shadow_.size() == 1) return;  // the last one: it hears its own verdict
    if (!late || round.cause) {
      ++it;
      continue;
    }
    require(s.agent->troubled || agents_.front().troubled || !s.agent->processes.empty(), "a healthy node is given up");
    round.cause = Verdict{JobEnd::lost, 125, s.rank, ""};
    it = shadow_.erase(it);
  }
  require(round.cause && round.cause->how == verdict.how && round.cause->node_rank == verdict.node_rank &&
              round.cause->exit_code == verdict.exit_code,
          fmt::format("the first cause is told: {} at {}", int(verdict.how), verdict.node_rank));
  const bool exhausted =
      verdict.how == JobEnd::failure && (round.never_started || core_->restarts() >= settings_.max_restarts);
  require(exhausted || !enough(), "the job could have gone on");
  const bool hosted = std::any_of(shadow_.begin(), shadow_.end(), [&](const auto& s) {
    return s.second.agent == &agents_.front() && !s.second.leaving;
  });
  require(exhausted || !settings_.awaits_others || !hosted || verdict.how == JobEnd::stopped, "it could have waited");
  for (const auto& [id, s] : shadow_)
    require(s.rank < 0 || s.over || s.agent->troubled || agents_.front().troubled || !s.agent->processes.empty(),
            "the end comes before all have stopped");
}

void World::check_phase() const {
  if (core_->phase() == RoundPhase::ended) {
    require(verdict_ || shadow_.empty(), "an end that nobody is told");
    return;
  }
  int in_round = 0, left = 0, well = 0;
  for (const auto& [id, s] : shadow_) {
    in_round += s.rank >= 0;
    left += s.rank >= 0 && !s.over;
    well += s.ok;
  }
  const bool waits = core_->phase() != RoundPhase::running;
  if (waits && !shadow_.empty()) require(core_->deadline().has_value(), "it waits without end");
  if (core_->phase() == RoundPhase::stopping && !across_hosts_) require(left > 0, "all have stopped, nothing follows");
  if (core_->phase() != RoundPhase::running) return;
  require(left > 0, "all are done, nothing follows");
  const auto round = rounds_.find(core_->round());
  require(round != rounds_.end() && !round->second.cause, "the round goes on without one of its nodes");
  if (in_round < settings_.max_nodes && well == 0 && round->second.nodes == in_round)
    require(eligible() == in_round || core_->deadline(), "there is room, and a node that waits");
}

// The host's agent has come to its end, as RoundJoining::close.
void World::close_host(const launcher::Outcome& outcome) {
  const bool stopped = outcome.stop_signal != 0;
  const Verdict verdict{stopped ? JobEnd::stopped : JobEnd::lost, stopped ? 128 + outcome.stop_signal : 125, -1,
                        "the agent that hosts the job left"};
  const RoundPhase before = core_->phase();
  const auto actions = core_->close(verdict);
  if (before != RoundPhase::ended) {
    require(core_->phase() == RoundPhase::ended, "the host leaves, the job stays");
    if (!verdict_) verdict_ = verdict;
  }
  for (const auto& action : actions)
    if (const auto* send = std::get_if<round_action::Send>(&action)) tell(send->member, send->message);
  for (auto& [id, link] : links_) close_from_host(id);
}

}  // namespace dtrain::sim
