#include "rendezvous/election/succession_core.h"

#include <fmt/format.h>

#include <utility>

namespace dtrain {

namespace act = succession_action;
namespace ev = succession_event;

namespace {

std::int64_t ticks(MonoTime time) { return time.time_since_epoch().count(); }

// Of the others: without the host that is lost.
bool can_choose(const VoterSet& voters, VoterId host) {
  const auto others = voters.size() - std::size_t(std::count(voters.begin(), voters.end(), host));
  return others >= majority(voters);
}

}  // namespace

std::vector<SuccessionAction> SuccessionCore::step(const SuccessionEvent& event, MonoTime now) {
  Actions out;
  std::visit([&](const auto& e) { on(e, now, out); }, event);
  return out;
}

std::vector<VoterSet> SuccessionCore::needed() const {
  if (electorate_.voters.empty() || (!settled_ && electorate_.earlier.empty())) return {};
  std::vector<VoterSet> sets = settled_ ? std::vector<VoterSet>() : electorate_.earlier;
  if (std::find(sets.begin(), sets.end(), electorate_.voters) == sets.end()) sets.push_back(electorate_.voters);
  return sets;
}

// Of a first round that is not settled as far as this node knows, others may know that it is. Of a later one the host
// may be alive, and none any more because of those that were in the round before.
bool SuccessionCore::can_follow() const {
  if (!settled_ && !electorate_.earlier.empty()) return true;
  auto sets = needed();
  if (sets.empty() && !electorate_.voters.empty()) sets.push_back(electorate_.voters);
  return !sets.empty() && std::all_of(sets.begin(), sets.end(),
                                      [this](const VoterSet& set) { return can_choose(set, electorate_.host); });
}

// The host that is lost comes last, if it is there at all.
int SuccessionCore::candidate_index() const {
  const auto& all = electorate_.candidates;
  const auto own = std::find_if(all.begin(), all.end(), [this](const auto& c) { return c.voter == settings_.self; });
  if (own == all.end() || own->port == 0) return -1;
  if (own->voter == electorate_.host) return int(all.size()) - 1;
  return int(std::count_if(all.begin(), own, [this](const auto& c) { return c.voter != electorate_.host; }));
}

bool SuccessionCore::votes() const {
  const auto contains = [this](const VoterSet& set) {
    return std::find(set.begin(), set.end(), settings_.self) != set.end();
  };
  return contains(electorate_.voters) || std::any_of(electorate_.earlier.begin(), electorate_.earlier.end(), contains);
}

bool SuccessionCore::enough(const std::set<VoterId>& voters) const {
  const auto sets = needed();
  // More sets come of hosts that were chosen and lost, one after the other, in rounds that never settled.
  if (sets.empty() || sets.size() > kMostVoterSets) return false;
  return std::all_of(sets.begin(), sets.end(), [&](const VoterSet& set) {
    const auto of = std::count_if(set.begin(), set.end(), [&](VoterId voter) { return voters.contains(voter); });
    return std::size_t(of) >= majority(set);
  });
}

// Those that would vote for this node.
std::set<VoterId> SuccessionCore::reachable() const {
  std::set<VoterId> all{settings_.self};
  for (const auto& [voter, seekers] : seekers_)
    if (seekers.last <= last()) all.insert(voter);
  return all;
}

// ---- who has a host, and who seeks one ------------------------------------------------------------------------------

void SuccessionCore::on(const ev::Opened& event, MonoTime, Actions& out) {
  last_term_ = event.term;
  last_round_ = event.round;
  electorate_ = event.electorate;
  settled_ = false;
  seen_ = std::max(seen_, event.term);
  if (phase_ == Phase::leading) return;
  host_.term = event.term;  // who came by an endpoint that was typed has not known it until now
  stop_seeking(out);
  phase_ = Phase::following;
}

void SuccessionCore::on(const ev::Settled& event, MonoTime, Actions&) {
  if (phase_ == Phase::following && last_term_ == host_.term && event.round == last_round_) settled_ = true;
}

void SuccessionCore::on(const ev::Following& event, MonoTime, Actions& out) {
  if (phase_ == Phase::leading) return;
  host_ = event.host;
  seen_ = std::max(seen_, host_.term);
  stop_seeking(out);
  phase_ = Phase::following;
}

void SuccessionCore::on(const ev::Lost& event, MonoTime now, Actions& out) {
  stamped_ = std::max(stamped_, event.stamped);
  if (phase_ == Phase::leading) {
    if (event.term == term_) resign(now, out);
    return;
  }
  if (phase_ != Phase::following) return;
  phase_ = Phase::idle;
  begin_seeking(now, out);
}

void SuccessionCore::begin_seeking(MonoTime now, Actions& out) {
  if (last_round_ < 0 || leaves_) return;
  phase_ = Phase::seeking;
  may_vote_at_ = std::max(now, stamped_ + settings_.pulse.stop_after());
  end_campaign(may_vote_at_ + std::max(0, candidate_index()) * settings_.stagger());
  std::vector<Candidate> others = electorate_.candidates;
  std::erase_if(others, [this](const Candidate& c) { return c.voter == settings_.self || c.port == 0; });
  // Even where nobody can follow the host, it may have gone on without this node, and have been followed since.
  if (!others.empty()) out.push_back(act::Seek{std::move(others)});
}

// The host may count on it that this node chooses nobody from now on.
void SuccessionCore::on(const ev::Leaves&, MonoTime, Actions& out) {
  leaves_ = true;
  stop_seeking(out);
  if (phase_ == Phase::seeking) phase_ = Phase::idle;
}

void SuccessionCore::stop_seeking(Actions& out) {
  if (phase_ == Phase::seeking) out.push_back(act::StopSeeking{});
  pending_.clear();
  campaign_until_.reset();
}

// The host that was lost may be there again. One that this node may not join, because of its vote, has to hear of that,
// or this node never has a host again.
void SuccessionCore::on(const ev::Find&, MonoTime, Actions& out) {
  if (phase_ != Phase::seeking) return;
  if (host_.addresses.empty()) return out.push_back(act::Nobody{missing()});
  if (host_.term >= promised()) return out.push_back(act::There{host_});
  if (!campaign_until_) out.push_back(act::Seek{{{0, host_.addresses[0], host_.port}}});
  out.push_back(act::Nobody{missing()});
}

msg::Seek SuccessionCore::seek() const {
  const bool kept = !campaign_until_ && !host_.addresses.empty() && host_.term < promised_;
  msg::Seek seek{settings_.self, last_term_, last_round_, kept ? promised_ : 0};
  for (const Candidate& c : electorate_.candidates)
    if (c.voter == settings_.self) seek.address = c.address, seek.port = c.port;
  return seek;
}

std::optional<msg::HostAt> SuccessionCore::host_at() const {
  if (phase_ == Phase::leading) return msg::HostAt{term_, host_.addresses, host_.port, lease_.settled_round()};
  if (phase_ != Phase::following || host_.addresses.empty()) return std::nullopt;
  return msg::HostAt{host_.term, host_.addresses, host_.port, settled_ && last_term_ == host_.term ? last_round_ : -1};
}

std::string SuccessionCore::missing() const {
  if (electorate_.voters.empty()) return "";
  if (!can_follow() && electorate_.voters.size() == 2)
    return "of two nodes, one cannot know whether the other is gone or cut off";
  if (needed().empty()) return "the round was too young for its nodes to choose another host";
  if (candidate_index() < 0) return "the nodes of the last round have not chosen another host";
  std::string counts;
  for (const VoterSet& set : needed()) {
    const auto here = reachable();
    const auto of = std::count_if(set.begin(), set.end(), [&](VoterId voter) { return here.contains(voter); });
    counts += fmt::format("{}{} of {} nodes of the last round are here, {} must be to choose another host",
                          counts.empty() ? "" : "; ", of, set.size(), majority(set));
  }
  return counts;
}

void SuccessionCore::on(const ev::Found& event, MonoTime, Actions& out) {
  seen_ = std::max(seen_, event.host.term);
  if (phase_ != Phase::seeking || event.host.term < host_.term) return;
  if (event.settled >= 0 && std::pair(event.host.term, event.settled) > promised_for_)
    promised_ = std::min(promised_, event.host.term);
  const bool known = std::exchange(host_, event.host) == event.host;
  if (known || host_.term < promised()) return;
  campaign_until_.reset();
  out.push_back(act::There{host_});
}

// ---- a voter --------------------------------------------------------------------------------------------------------

void SuccessionCore::on(const ev::Asked& event, MonoTime now, Actions& out) {
  const msg::Ballot& ballot = event.ballot;
  seen_ = std::max(seen_, ballot.term);
  const bool older = std::pair(ballot.last_term, ballot.last_round) < std::pair(last_term_, last_round_);
  if (phase_ != Phase::seeking || !votes() || older || ballot.term <= voted_) {
    out.push_back(act::Answer{event.candidate, {ballot.term, ballot.stamp, false, 0, seen_}});
    return;
  }
  pending_[event.candidate] = {event.candidate, ballot};
  if (now >= may_vote_at_) vote_later(now, out);
}

// For the highest term; then for whoever is first among the candidates. Some may be of a round that this node has not
// heard of.
void SuccessionCore::vote_later(MonoTime now, Actions& out) {
  std::optional<Pending> best;
  std::erase_if(pending_, [this](const auto& p) { return p.second.ballot.term <= voted_; });
  for (const Candidate& candidate : electorate_.candidates) {
    const auto it = pending_.find(candidate.voter);
    if (it != pending_.end() && (!best || it->second.ballot.term > best->ballot.term)) best = it->second;
  }
  for (const auto& [voter, pending] : pending_)
    if (!best || pending.ballot.term > best->ballot.term) best = pending;
  pending_.clear();
  if (best) vote(*best, now, out);
}

void SuccessionCore::vote(const Pending& pending, MonoTime now, Actions& out) {
  voted_ = promised_ = pending.ballot.term;
  promised_for_ = {pending.ballot.last_term, pending.ballot.last_round};
  out.push_back(act::Withdraw{});
  const std::int64_t age = stamped_ == MonoTime{} ? ticks(now) : (now - stamped_).count();
  out.push_back(act::Answer{pending.candidate, {voted_, pending.ballot.stamp, true, age, seen_}});
  // The vote brings a stamp back.
  stamped_ = now;
  may_vote_at_ = now + settings_.pulse.interval;
  end_campaign(may_vote_at_ + (1 + std::max(0, candidate_index())) * settings_.stagger());
}

// ---- a candidate ----------------------------------------------------------------------------------------------------

void SuccessionCore::on(const ev::Seeker& event, MonoTime now, Actions& out) {
  const VoterId voter = event.seek.voter;
  Seekers& seekers = seekers_[voter];
  seekers.connections += event.here ? 1 : -1;
  seekers.last = {event.seek.last_term, event.seek.last_round};
  if (seekers.connections <= 0) seekers_.erase(voter);
  if (phase_ == Phase::leading && event.here && event.seek.promised > term_ && can_follow()) {
    seen_ = std::max(seen_, event.seek.promised);
    resign(now, out);
    return out.push_back(act::Deposed{"another node has voted since"});
  }
  if (phase_ != Phase::seeking || !event.here) return;
  // A round that this node is a voter of, and has not heard of, may have candidates that it does not know.
  if (event.seek.port != 0 && seekers.last > last())
    out.push_back(act::Seek{{{voter, event.seek.address, event.seek.port}}});
  if (campaign_until_) out.push_back(act::Propose{voter, ballot_});
  if (!campaign_until_ && now >= campaign_at_) campaign(now, out);
}

void SuccessionCore::campaign(MonoTime now, Actions& out) {
  if (candidate_index() < 0 || !enough(reachable())) return;
  ballot_ = {++seen_, ticks(now), last_term_, last_round_};
  voted_ = ballot_.term;
  campaign_until_ = now + 2 * settings_.pulse.interval;
  voters_ = {{settings_.self, stamped_}};
  out.push_back(act::Withdraw{});
  out.push_back(act::Propose{0, ballot_});
  maybe_won(now, out);
}

void SuccessionCore::end_campaign(MonoTime again_at) {
  campaign_until_.reset();
  campaign_at_ = again_at;
}

void SuccessionCore::on(const ev::Voted& event, MonoTime now, Actions& out) {
  const msg::Vote& vote = event.vote;
  seen_ = std::max(seen_, vote.seen);
  if (phase_ != Phase::seeking || !campaign_until_ || vote.term != ballot_.term || vote.stamp != ballot_.stamp) return;
  if (!vote.granted) {
    if (seen_ > ballot_.term) end_campaign(now + (1 + candidate_index()) * settings_.stagger());
    return;
  }
  const Duration age = std::clamp<Duration>(Duration(vote.age), Duration(0), now.time_since_epoch());
  voters_[event.voter] = now - age;
  maybe_won(now, out);
}

void SuccessionCore::maybe_won(MonoTime now, Actions& out) {
  std::set<VoterId> voters;
  MonoTime stamped{};
  for (const auto& [voter, at] : voters_) {
    voters.insert(voter);
    stamped = std::max(stamped, at);
  }
  if (!enough(voters)) return;
  const auto chosen_by = needed();
  stop_seeking(out);
  lead(ballot_.term);
  lease_.begin(chosen_by);
  for (const VoterId voter : voters) lease_.echoed(voter, MonoTime(Duration(ballot_.stamp)), -1, now);
  out.push_back(act::Here{term_, stamped + settings_.fence()});
}

// ---- the host -------------------------------------------------------------------------------------------------------

void SuccessionCore::lead(std::uint64_t term) {
  phase_ = Phase::leading;
  term_ = term;
  host_ = {{}, 0, term};
  lease_ = HostLease(settings_.pulse, settings_.self);
  opening_.reset();
  doubt_ = false;
}

void SuccessionCore::on(const ev::Hosts&, MonoTime, Actions&) { lead(0); }

void SuccessionCore::on(const ev::Opening& event, MonoTime now, Actions& out) {
  if (phase_ != Phase::leading) return;
  opening_ = event;
  maybe_open(now, out);
}

void SuccessionCore::on(const ev::Echoed& event, MonoTime now, Actions& out) {
  if (phase_ != Phase::leading) return;
  lease_.echoed(event.voter, event.stamp, event.round, now);
  settled_ = last_term_ == term_ && lease_.settled_round() == last_round_;
  leading_tick(now, out);
}

void SuccessionCore::on(const ev::Left& event, MonoTime now, Actions& out) {
  if (phase_ != Phase::leading) return;
  lease_.left(event.voter, now);
  leading_tick(now, out);
}

void SuccessionCore::maybe_open(MonoTime now, Actions& out) {
  if (!opening_ || !lease_.sure(now)) return;
  lease_.propose(opening_->round, std::move(opening_->voters), now);
  opening_.reset();
  out.push_back(act::Open{});
}

void SuccessionCore::leading_tick(MonoTime now, Actions& out) {
  if (now >= too_late()) {
    resign(now, out);
    return out.push_back(
        act::Deposed{"so many nodes of the last round were not heard that the others may have chosen another host"});
  }
  if (lease_.sure(now) == doubt_) {
    doubt_ = !doubt_;
    if (doubt_)
      out.push_back(act::Doubt{});
    else
      out.push_back(act::Sure{});
  }
  maybe_open(now, out);
}

MonoTime SuccessionCore::too_late() const {
  const MonoTime bound = lease_.bound();
  return bound == MonoTime::max() ? bound : bound + settings_.pulse.stop_after();
}

std::optional<MonoTime> SuccessionCore::fenced_at() const {
  if (phase_ != Phase::leading || lease_.bound() == MonoTime::max()) return std::nullopt;
  return lease_.bound() + settings_.pulse.fenced_after();
}

// What it knew as the host it knows as a node.
void SuccessionCore::resign(MonoTime now, Actions& out) {
  if (last_term_ == term_ && lease_.settled_round() == last_round_) settled_ = true;
  stamped_ = now;
  opening_.reset();
  // Their connections ended when this node was chosen.
  seekers_.clear();
  phase_ = Phase::idle;
  begin_seeking(now, out);
}

// ---- time -----------------------------------------------------------------------------------------------------------

void SuccessionCore::on(const ev::Tick&, MonoTime now, Actions& out) {
  if (phase_ == Phase::leading) return leading_tick(now, out);
  if (phase_ != Phase::seeking) return;
  if (campaign_until_ && now >= *campaign_until_) end_campaign(now + (1 + candidate_index()) * settings_.stagger());
  if (!pending_.empty() && now >= may_vote_at_) vote_later(now, out);
  if (!campaign_until_ && now >= campaign_at_) campaign(now, out);
}

std::optional<MonoTime> SuccessionCore::deadline() const {
  std::optional<MonoTime> first;
  const auto add = [&](MonoTime at) { first = std::min(first.value_or(MonoTime::max()), at); };
  if (phase_ == Phase::leading) {
    if (lease_.bound() != MonoTime::max()) add(doubt_ ? too_late() : lease_.bound());
    return first;
  }
  if (phase_ != Phase::seeking) return first;
  if (!pending_.empty()) add(may_vote_at_);
  if (campaign_until_) add(*campaign_until_);
  if (!campaign_until_ && candidate_index() >= 0 && enough(reachable())) add(campaign_at_);
  return first;
}

}  // namespace dtrain
