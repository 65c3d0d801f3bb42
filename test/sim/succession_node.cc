// What comes to a node, and the host of the rounds; the faults, and what must hold.
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "test/sim/succession_world.h"

namespace dtrain::sim {

using namespace std::chrono_literals;
namespace ev = succession_event;

namespace {
const PulseSettings kNodePulse;
constexpr auto kFaulty = 30s;
constexpr auto kGood = 25s;
}  // namespace

void SuccessionWorld::received(int i, Id id, int end, const RoundMessage& message) {
  Node& n = all_[std::size_t(i)];
  const Conn& conn = conns_.at(id);
  if (conn.life[end] != n.life) return;
  if (const auto* seek = std::get_if<msg::Seek>(&message)) {
    if (auto at = n.core->host_at()) {
      if (n.host) at->addresses = {std::to_string(i)}, at->port = 1;
      send(id, 1, *at);
    }
    if (n.host) {  // that has no seekers, and not much time for who does not join
      later(i, now_ + 1s, [this, id] { close(id, 1); });
      feed(i, ev::Seeker{*seek, true});
      return feed(i, ev::Seeker{*seek, false});
    }
    if (n.seekers.contains(id)) feed(i, ev::Seeker{n.seekers[id], false});
    n.seekers[id] = *seek;
    return feed(i, ev::Seeker{*seek, true});
  }
  if (const auto* vote = std::get_if<msg::Vote>(&message)) {
    const auto seeker = n.seekers.find(id);
    return seeker == n.seekers.end() ? void() : feed(i, ev::Voted{seeker->second.voter, *vote});
  }
  if (const auto* ballot = std::get_if<msg::Ballot>(&message))
    return feed(i, ev::Asked{n.seek_id[conn.node[1]], *ballot});
  if (const auto* host = std::get_if<msg::HostAt>(&message))
    return feed(i, ev::Found{{host->addresses, host->port, host->term}, host->settled});
  if (end == 1 && n.host) return to_host(i, MemberId(id), message);
  if (end == 0 && n.link == id) from_host(i, message);
}

void SuccessionWorld::closed(int i, Id id, int end, bool fin) {
  Node& n = all_[std::size_t(i)];
  if (const auto seeker = n.seekers.find(id); seeker != n.seekers.end()) {
    const msg::Seek seek = seeker->second;
    n.seekers.erase(seeker);
    return feed(i, ev::Seeker{seek, false});
  }
  for (const auto& [to, sought] : n.sought)
    if (sought == id) {
      n.seek_at[to] = clock(i) + 300ms;
      n.sought.erase(to);
      return;
    }
  if (end == 0 && n.link == id) return link_lost(i);
  if (end == 0 || !n.host) return;
  const auto peer = n.host->peers.find(MemberId(id));
  if (peer == n.host->peers.end()) return;
  MonoTime fenced_at = peer->second.silence ? peer->second.silence->fenced_at() : MonoTime{};
  if (fin) fenced_at = std::min(fenced_at, clock(i) + kNodePulse.kill_grace() * 3 / 2);
  note(i, fmt::format("misses {}{}", peer->second.agent, fin ? ", whose connection has ended" : ""));
  n.host->peers.erase(peer);
  host_event(i, round_event::Gone{MemberId(id), fenced_at});
}

void SuccessionWorld::from_host(int i, const RoundMessage& message) {
  Node& n = all_[std::size_t(i)];
  if (!n.joined) {
    n.joined = true;
    n.hello_until.reset();
    n.pulse.emplace(kNodePulse, clock(i));
    send(n.link, 0, msg::Here{});
    return beat(i);
  }
  if (const auto* refused = std::get_if<msg::Refused>(&message)) {
    leave(i);
    feed(i, ev::Lost{n.to.term, {}});
    if (!refused->try_again) fail(n.agent + " was refused: " + refused->reason);
    n.look_at = clock(i) + 300ms;
    return;
  }
  if (!std::exchange(n.follows, true)) feed(i, ev::Following{n.to});
  if (const auto* pong = std::get_if<msg::Pong>(&message)) {
    n.echo = std::max(n.echo, pong->stamp);
    n.stamped = clock(i);
    if (n.pulse) n.pulse->answered(MonoTime(Duration(pong->sent)));
    if (n.pulse && pong->settled == n.last.round) n.pulse->calm();
    return feed(i, ev::Settled{pong->settled});
  }
  if (const auto* open = std::get_if<msg::Open>(&message)) {
    if (n.workers) fail(fmt::format("{}: a round opens while it has workers", n.agent));
    if (open->place.round <= n.last.round)
      fail(fmt::format("{}: round {} after {}", n.agent, open->place.round, n.last.round));
    if (open->term < n.last.term) fail(n.agent + ": an old host opens a round");
    n.last = {open->term, open->place.round, open->place.node_rank, open->place.nodes, 0, open->electorate.host};
    auto [known, fresh] = rounds_.try_emplace({open->term, open->place.round}, std::to_string(open->electorate.host));
    if (known->second != std::to_string(open->electorate.host)) fail("two hosts of one round");
    if (n.pulse) n.pulse->hurry(clock(i) + kNodePulse.hurry(), kNodePulse.hurried_ping_every(open->place.nodes));
    n.workers = Workers{open->term, open->place.round};
    note(i, fmt::format("runs term {} round {}", open->term, open->place.round));
    return feed(i, ev::Opened{open->term, open->place.round, open->electorate});
  }
  if (const auto* end = std::get_if<msg::End>(&message)) {
    // A host that stalls while its round stops may find that its own workers took too long.
    if (!n.leaves_at && end->verdict.reason.find("did not stop its workers") == std::string::npos)
      fail("the job ends: " + end->verdict.reason);
    job_over_ = job_over_ || !n.leaves_at;
    return leave(i);
  }
  if (std::holds_alternative<msg::Stop>(message) && n.workers)
    n.workers->over_at = clock(i) + std::chrono::milliseconds(draw(1, 400));
}

// ---- the host -------------------------------------------------------------------------------------------------------

void SuccessionWorld::begin_hosting(int i, std::uint64_t term, MonoTime not_before) {
  Node& n = all_[std::size_t(i)];
  auto [leader, fresh] = leaders_.try_emplace(term, n.agent);
  // A job may begin anew at the endpoint: nobody of the old one joins it.
  if (!fresh && term != 0) fail(fmt::format("two hosts of term {}: {} and {}", term, leader->second, n.agent));
  n.host = std::make_unique<Host>();
  RoundSettings settings;
  settings.host_agent = n.agent;
  settings.term = term;
  settings.max_nodes = nodes_;
  settings.min_nodes = 1;
  settings.awaits_others = settings.succession = true;
  settings.last_call_timeout = 2s;
  settings.regather_timeout = kNodePulse.lost_after();
  settings.after = {n.last.round, 0, n.last.nodes, not_before};
  n.host->core = std::make_unique<RoundCore>(settings);
}

void SuccessionWorld::end_hosting(int i) {
  Node& n = all_[std::size_t(i)];
  const auto host = std::move(n.host);
  for (const auto& [conn, peer] : host->peers)
    if (conn != 0) close(Id(conn), 1);
}

void SuccessionWorld::to_host(int i, MemberId member, const RoundMessage& message) {
  Node& n = all_[std::size_t(i)];
  Peer& peer = n.host->peers[member];
  if (const auto* join = std::get_if<msg::Join>(&message); join != nullptr && member != 0) {
    peer.agent = join->node.agent_id;
    peer.join = *join;
    return send(Id(member), 1, msg::Welcome{});
  }
  if (std::holds_alternative<msg::Here>(message)) {
    if (!peer.join) return;
    peer.joined = true;
    peer.silence.emplace(kNodePulse, clock(i));
    return host_event(i, round_event::Said{member, *std::exchange(peer.join, std::nullopt)});
  }
  if (!peer.joined) return;
  if (peer.silence) peer.silence->heard(clock(i));
  if (std::holds_alternative<msg::Leaving>(message)) feed(i, ev::Left{voter_id(peer.agent)});
  if (const auto* ping = std::get_if<msg::Ping>(&message)) {
    if (ping->stamp != 0) feed(i, ev::Echoed{voter_id(peer.agent), MonoTime(Duration(ping->stamp)), ping->round});
    if (n.host)
      send(Id(member), 1,
           msg::Pong{n.core->sure(clock(i)) ? ping->sent : 0, clock(i).time_since_epoch().count(),
                     n.core->settled_round()});
    return;
  }
  host_event(i, round_event::Said{member, message});
}

void SuccessionWorld::host_event(int i, const RoundEvent& event) {
  Node& n = all_[std::size_t(i)];
  const auto life = n.life;
  if (const auto* said = std::get_if<round_event::Said>(&event))
    note(i, fmt::format("hears message {} of {}", said->message.index(), n.host->peers[said->member].agent));
  for (const auto& action : n.host->core->step(event, clock(i))) {
    if (n.life != life || !n.host) return;
    if (std::holds_alternative<round_action::FreshStore>(action) && !n.host->holds) {
      n.host->holds = true;
      n.host->held.push_back(action);
      feed(i, ev::Opening{n.host->core->round(), n.host->core->electorate().voters});
    } else if (n.host->holds) {
      n.host->held.push_back(action);
    } else {
      host_perform(i, action);
    }
  }
}

// The Open messages of a round come after the FreshStore, and may do so when the round has been allowed.
void SuccessionWorld::host_perform(int i, const RoundAction& action) {
  Node& n = all_[std::size_t(i)];
  const auto* a = std::get_if<round_action::Send>(&action);
  if (a == nullptr || !n.host) return;
  RoundMessage message = a->message;
  if (auto* open = std::get_if<msg::Open>(&message)) open->electorate.earlier = n.core->earlier();
  if (a->member != 0) return send(Id(a->member), 1, message);
  const auto life = n.life;
  later(i, now_, [this, i, life, message] {
    if (all_[std::size_t(i)].life == life && all_[std::size_t(i)].link == -1) from_host(i, message);
  });
}

void SuccessionWorld::host_tick(int i) {
  Node& n = all_[std::size_t(i)];
  if (const auto at = n.host->core->deadline(); at && clock(i) >= *at) host_event(i, round_event::Tick{});
  std::vector<MemberId> lost;
  if (!n.host) return;
  for (const auto& [id, peer] : n.host->peers)
    if (peer.silence && peer.silence->lost(clock(i))) lost.push_back(id);
  for (const MemberId id : lost) {
    if (!n.host) return;
    close(Id(id), 1);
    closed(i, Id(id), 1, false);
  }
}

// ---- time -----------------------------------------------------------------------------------------------------------

void SuccessionWorld::step(int i) {
  Node& n = all_[std::size_t(i)];
  if (!n.alive || now_ < n.frozen_until) return;
  if (n.workers && clock(i) >= n.workers->killed_at) n.workers.reset();
  if (n.pulse && n.joined) beat(i);
  if (const auto at = n.core->deadline(); at && clock(i) >= *at) feed(i, ev::Tick{});
  if (n.host) host_tick(i);
  if (n.hello_until && clock(i) >= *n.hello_until) {
    leave(i);
    feed(i, ev::Lost{n.to.term, {}});
    if (!n.look_at) n.look_at = clock(i) + 100ms;
  }
  n.stalled = {};
  if (n.workers && clock(i) >= n.workers->over_at) {
    const int round = n.workers->round;
    n.workers.reset();
    if (n.link > 0) send(n.link, 0, msg::Over{round, false});
    if (n.link == -1 && n.host) to_host(i, 0, msg::Over{round, false});
  }
  if (n.leaves_at && clock(i) >= *n.leaves_at && !n.workers) return crash(i, false);
  if (!n.workers && n.link == 0 && !n.look_at && !n.leaves_at) n.look_at = clock(i) + 10ms;
  if (n.look_at && clock(i) >= *n.look_at && !n.workers && n.link == 0 && !n.leaves_at) look(i);
  if (n.seeks)
    for (auto& [to, at] : n.seek_at)
      if (clock(i) >= at && !n.sought.contains(to)) seek(i, to);
}

void SuccessionWorld::seek(int i, int to) {
  Node& n = all_[std::size_t(i)];
  n.seek_at[to] = clock(i) + 1s;
  const auto life = n.life;
  const auto id = std::make_shared<Id>(0);
  *id = connect(i, to, true, [this, i, to, life, id](bool there) {
    Node& node = all_[std::size_t(i)];
    if (!there || node.life != life) return;
    if (!node.seeks || node.sought.contains(to)) return close(*id, 0);
    node.sought[to] = *id;
    send(*id, 0, node.core->seek());
  });
}

// One of them, at node i.
void SuccessionWorld::fault() {
  const int i = draw(0, nodes_ - 1);
  Node& n = all_[std::size_t(i)];
  wake_[std::size_t(i)] = now_;
  const int what = draw(1, 190);
  if (what <= 50) {  // one direction, or both, of one node to some others
    const bool in = chance(2), out = !in || chance(2);
    note(i, fmt::format("is cut off{}{}", in ? ", in" : "", out ? ", out" : ""));
    for (int other = 0; other < nodes_; ++other) {
      if (other == i || chance(3)) continue;
      if (in) cut_[std::size_t(other)][std::size_t(i)] = true;
      if (out) cut_[std::size_t(i)][std::size_t(other)] = true;
    }
  } else if (what <= 80) {
    const int parts = draw(1, nodes_ - 1);
    note(parts, "first nodes are cut off from the others");
    for (int a = 0; a < nodes_; ++a)
      for (int b = 0; b < nodes_; ++b) cut_[std::size_t(a)][std::size_t(b)] = (a < parts) != (b < parts);
  } else if (what <= 125) {
    note(-1, "the network is whole");
    for (auto& row : cut_) row.assign(row.size(), false);
  } else if (!n.alive || now_ < n.frozen_until) {
    return;
  } else if (what <= 155) {  // a machine that stands still, too: its timers have all gone off when it goes on
    n.stalled = std::chrono::milliseconds(draw(10, chance(4) ? 9000 : 1500));
    n.frozen_until = now_ + n.stalled;
    note(i, "stalls");
  } else if (crashes_left_ > 0 && what <= 172) {
    if (n.link <= 0 || !n.joined || !n.workers || n.leaves_at) return;
    --crashes_left_;
    stop(i);
  } else if (crashes_left_ > 0) {
    --crashes_left_;
    crash(i, chance(2));
    if (i != 0 && chance(2)) later(-1, now_ + std::chrono::milliseconds(draw(10, 5000)), [this, i] { start(i); });
  }
}

// By its user.
void SuccessionWorld::stop(int i) {
  Node& n = all_[std::size_t(i)];
  note(i, "is stopped");
  n.leaves_at = clock(i) + std::chrono::milliseconds(draw(1, 6000));
  n.workers->over_at = std::min(n.workers->over_at, *n.leaves_at);
  feed(i, ev::Leaves{});
  send(n.link, 0, msg::Leaving{15, true});
}

void SuccessionWorld::heal() {
  faulty_ = false;
  loss_ = 0;
  slowest_ms_ = 5;
  for (auto& row : cut_) row.assign(row.size(), false);
  for (Node& n : all_) n.frozen_until = {};
  wake_.assign(wake_.size(), now_);
}

// Whether those that are alive are enough to have a host: of those who know most, one can be chosen, or is.
bool SuccessionWorld::expected() const {
  std::set<VoterId> alive;
  const Node* best = nullptr;
  for (const Node& n : all_) {
    if (!n.alive) continue;
    alive.insert(voter_id(n.agent));
    if (best == nullptr || n.core->last() > best->core->last()) best = &n;
  }
  if (best == nullptr) return false;
  const auto needed = best->core->needed();
  if (needed.empty()) return false;
  bool candidate = false;
  for (const Node& n : all_)
    candidate = candidate || (n.alive && n.core->last() == best->core->last() && n.core->may_stand());
  return candidate && std::all_of(needed.begin(), needed.end(), [&](const VoterSet& set) {
           const auto of = std::count_if(set.begin(), set.end(), [&](VoterId v) { return alive.contains(v); });
           return std::size_t(of) >= majority(set);
         });
}

void SuccessionWorld::check() {
  const Node* running = nullptr;
  for (int i = 0; i < nodes_; ++i) {
    const Node& n = all_[std::size_t(i)];
    if (!n.alive || !n.workers || now_ < n.frozen_until || clock(i) >= n.workers->killed_at) continue;
    if (running != nullptr &&
        (running->workers->term != n.workers->term || running->workers->round != n.workers->round))
      fail(fmt::format("workers of two rounds: {} in term {} round {}, {} in term {} round {}", running->agent,
                       running->workers->term, running->workers->round, n.agent, n.workers->term, n.workers->round));
    running = &n;
  }
}

// When step(i) has something to do, on the world's clock.
MonoTime SuccessionWorld::due(int i) const {
  const Node& n = all_[std::size_t(i)];
  if (!n.alive) return MonoTime::max();
  if (now_ < n.frozen_until) return n.frozen_until;
  MonoTime first = MonoTime::max();
  const auto add = [&](std::optional<MonoTime> at) { first = std::min(first, at.value_or(first)); };
  add(n.core->deadline());
  add(n.hello_until);
  if (n.pulse && n.joined) add(n.pulse->deadline(clock(i)));
  if (n.workers) add(std::min(n.workers->killed_at, n.workers->over_at));
  if (!n.workers) add(n.leaves_at);
  if (!n.workers && n.link == 0 && !n.leaves_at) add(n.look_at);
  if (n.host) add(n.host->core->deadline());
  if (n.host)
    for (const auto& [id, peer] : n.host->peers)
      if (peer.silence) add(peer.silence->deadline());
  if (n.seeks)
    for (const auto& [to, at] : n.seek_at)
      if (!n.sought.contains(to)) add(at);
  return clocks_[std::size_t(i)].when(first);
}

// To the next moment at which something happens; timers go off up to a millisecond late.
void SuccessionWorld::advance(MonoTime latest) {
  const MonoTime next = std::min(latest, queue_.empty() ? latest : queue_.begin()->first);
  now_ = std::max(now_ + 1ms, std::min(next, *std::min_element(wake_.begin(), wake_.end())));
}

void SuccessionWorld::step_those_due() {
  for (int i = 0; i < nodes_; ++i) {
    if (now_ < wake_[std::size_t(i)]) continue;
    step(i);
    wake_[std::size_t(i)] = due(i);
  }
}

void SuccessionWorld::run() {
  const MonoTime healed = now_ + kFaulty, end = healed + kGood;
  MonoTime next_fault = now_ + 3s;
  while (now_ < end) {
    advance(faulty_ ? std::min(healed, next_fault) : end);
    if (faulty_ && now_ >= healed) {
      heal();
      survived_ = expected();
      note(-1, fmt::format("healed; a majority is {}there", survived_ ? "" : "not "));
    }
    if (faulty_ && now_ >= next_fault) {
      fault();
      next_fault = now_ + std::chrono::microseconds(int(std::exponential_distribution(1 / 236e3)(random_)));
    }
    // Whoever stalls sees its timers first, then what came meanwhile.
    step_those_due();
    while (!queue_.empty() && queue_.begin()->first <= now_) {
      auto [node, what] = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
      if (node >= 0 && now_ < all_[std::size_t(node)].frozen_until)
        later(node, all_[std::size_t(node)].frozen_until, std::move(what));
      else if (node < 0 || all_[std::size_t(node)].alive)
        what();
      if (node >= 0) wake_[std::size_t(node)] = now_;
    }
    step_those_due();
    check();
  }
  if (!survived_ || job_over_) return;
  const auto runs = std::count_if(all_.begin(), all_.end(), [](const Node& n) { return n.alive && n.workers; });
  // One that was lost again and again has to wait, or is just being taken in.
  const bool waits = std::any_of(all_.begin(), all_.end(), [](const Node& n) {
    if (!n.alive || !n.host) return false;
    const RoundPhase phase = n.host->core->phase();
    return phase == RoundPhase::stopping || (phase == RoundPhase::running && n.host->core->deadline());
  });
  if (runs < (waits ? 1 : 2)) {
    for (int i = 0; i < nodes_; ++i) {
      const Node& n = all_[std::size_t(i)];
      if (!n.alive) continue;
      std::string sets;
      for (const auto& set : n.core->needed()) sets += fmt::format(" {}", set.size());
      note(i, fmt::format("{}: phase {}, link {}{}, last {}.{}, needs{} ({}), stands {}, seekers {}, seeks {} {}",
                          n.agent, int(n.core->phase()), n.link, n.joined ? " joined" : "", n.last.term, n.last.round,
                          sets, n.core->can_follow(), n.core->may_stand(), n.seekers.size(), n.sought.size(),
                          n.host ? n.host->core->describe() + (n.host->holds ? ", held" : "") : ""));
    }
    fail("no round, although a majority is there");
  }
}

}  // namespace dtrain::sim
