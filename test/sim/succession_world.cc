#include "test/sim/succession_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dtrain::sim {

using namespace std::chrono_literals;
namespace act = succession_action;
namespace ev = succession_event;

namespace {
const PulseSettings kPulse;
}  // namespace

SuccessionWorld::SuccessionWorld(std::uint64_t seed) : random_(seed) {
  nodes_ = draw(3, 7);
  loss_ = draw(0, 20);
  slowest_ms_ = draw(2, 400);
  crashes_left_ = draw(0, (nodes_ - 1) / 2);
  all_.resize(std::size_t(nodes_));
  for (int i = 0; i < nodes_; ++i) clocks_.push_back(NodeClock::drawn(random_, now_, draw(10, 1'000'000) * 1s));
  cut_.assign(std::size_t(nodes_), std::vector<bool>(std::size_t(nodes_), false));
  wake_.assign(std::size_t(nodes_), now_);
  for (int i = 0; i < nodes_; ++i) start(i);
}

void SuccessionWorld::note(int node, const std::string& text) {
  if (trace_.size() < 1'000'000)
    trace_ += fmt::format("{:>9.3f} {} {}\n", std::chrono::duration<double>(now_.time_since_epoch() - 1h).count(), node,
                          text);
}

void SuccessionWorld::fail(const std::string& why) const { throw std::runtime_error(why); }

void SuccessionWorld::later(int node, MonoTime at, std::function<void()> what) {
  queue_.emplace(at, std::pair(node, std::move(what)));
}

// A new agent on this node.
void SuccessionWorld::start(int i) {
  Node fresh;
  fresh.life = ++lives_;
  fresh.agent = fmt::format("agent {}", fresh.life);
  SuccessionSettings settings;
  settings.pulse = kPulse;
  settings.self = voter_id(fresh.agent);
  fresh.core = std::make_unique<SuccessionCore>(settings);
  all_[std::size_t(i)] = std::move(fresh);
  wake_[std::size_t(i)] = now_;
  note(i, "starts " + all_[std::size_t(i)].agent);
  if (i == 0) {
    feed(0, ev::Hosts{});
    begin_hosting(0, 0, {});
  }
  look(i);
}

// Without power its clock begins anew.
void SuccessionWorld::crash(int i, bool silently) {
  Node& n = all_[std::size_t(i)];
  if (silently) clocks_[std::size_t(i)] = NodeClock::drawn(random_, now_, 10s);
  note(i, silently ? "loses its power" : "is killed");
  n.alive = false;
  n.workers.reset();
  for (auto& [id, conn] : conns_)
    for (int end = 0; end < 2; ++end)
      if (conn.node[end] == i && conn.life[end] == n.life && conn.open[end]) {
        if (silently)
          conn.open[end] = false;
        else
          close(id, end);
      }
}

// ---- the network ----------------------------------------------------------------------------------------------------

SuccessionWorld::Id SuccessionWorld::connect(int from, int to, bool seek, const std::function<void(bool)>& done) {
  const Id id = ++last_conn_;
  Conn& conn = conns_[id];
  conn.id = id;
  conn.node[0] = from;
  conn.node[1] = to;
  conn.life[0] = all_[std::size_t(from)].life;
  conn.seek = seek;
  conn.open[1] = false;
  later(from, now_ + std::chrono::milliseconds(draw(1, slowest_ms_)), [this, id, done] {
    Conn& c = conns_.at(id);
    Node& target = all_[std::size_t(c.node[1])];
    const bool there = target.alive && !cut_[std::size_t(c.node[0])][std::size_t(c.node[1])] &&
                       !cut_[std::size_t(c.node[1])][std::size_t(c.node[0])];
    if (!c.open[0]) return;
    c.life[1] = target.life;
    if (there && (c.seek || target.host)) {
      c.open[1] = true;
      return done(true);
    }
    c.open[0] = false;
    done(false);
  });
  return id;
}

void SuccessionWorld::send(Id id, int end, const RoundMessage& message) {
  const auto it = conns_.find(id);
  if (it == conns_.end() || !it->second.open[end]) return;
  Conn& conn = it->second;
  // What one message tells, the next one tells again: these may come late, twice, in any order or not at all; but not
  // before the others that were sent earlier.
  const bool loose = std::holds_alternative<msg::Ping>(message) || std::holds_alternative<msg::Pong>(message) ||
                     std::holds_alternative<msg::Ballot>(message) || std::holds_alternative<msg::Vote>(message);
  const int number = ++conn.sent;
  if (!loose) {
    conn.last[end] = std::max(conn.last[end], now_ + std::chrono::milliseconds(draw(1, slowest_ms_)));
    conn.ordered[end][number] = message;
    return transmit(id, end, conn.last[end], number, std::nullopt);
  }
  const int copies = draw(0, 99) < loss_ ? 0 : faulty_ && chance(10) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    const auto slow = std::chrono::milliseconds(draw(1, slowest_ms_ * (faulty_ && chance(20) ? 20 : 1)));
    transmit(id, end, now_ + slow, number, message);
  }
}

void SuccessionWorld::transmit(Id id, int end, MonoTime at, int number, std::optional<RoundMessage> loose) {
  const int to = conns_.at(id).node[1 - end];
  later(to, at, [this, id, end, to, number, loose = std::move(loose)] {
    Conn& conn = conns_.at(id);
    if (!conn.open[1 - end]) return;
    auto& ordered = conn.ordered[end];
    const bool waits = loose && !ordered.empty() && ordered.begin()->first < number;
    // Sent again until it comes, or the connection is gone.
    if (waits || cut_[std::size_t(conn.node[end])][std::size_t(to)])
      return transmit(id, end, now_ + 20ms, number, loose);
    if (loose) return received(to, id, 1 - end, *loose);
    const RoundMessage message = ordered.begin()->second;
    ordered.erase(ordered.begin());
    received(to, id, 1 - end, message);
  });
}

void SuccessionWorld::close(Id id, int end) {
  const auto it = conns_.find(id);
  if (it == conns_.end() || !it->second.open[end]) return;
  it->second.open[end] = false;
  tell_closed(id, end, std::max(it->second.last[end], now_ + std::chrono::milliseconds(draw(1, slowest_ms_))));
}

void SuccessionWorld::tell_closed(Id id, int end, MonoTime at) {
  const int to = conns_.at(id).node[1 - end];
  later(to, at, [this, id, end, to] {
    Conn& conn = conns_.at(id);
    if (!conn.open[1 - end] || all_[std::size_t(to)].life != conn.life[1 - end]) return;
    if (cut_[std::size_t(conn.node[end])][std::size_t(to)]) return tell_closed(id, end, now_ + 20ms);
    conn.open[1 - end] = false;
    closed(to, id, 1 - end, true);
  });
}

// ---- a node ---------------------------------------------------------------------------------------------------------

void SuccessionWorld::feed(int i, const SuccessionEvent& event) {
  const auto life = all_[std::size_t(i)].life;
  for (const auto& action : all_[std::size_t(i)].core->step(event, clock(i))) {
    if (all_[std::size_t(i)].life != life) return;
    perform(i, action);
  }
}

void SuccessionWorld::perform(int i, const SuccessionAction& action) {
  std::visit([&](const auto& a) { carry_out(i, a); }, action);
}

void SuccessionWorld::carry_out(int i, const act::There& there) {
  if (!all_[std::size_t(i)].workers) join(i, there.host);
}

void SuccessionWorld::carry_out(int i, const act::Here& here) {
  Node& n = all_[std::size_t(i)];
  ++followed_;
  note(i, fmt::format("is chosen, term {}, not before {:+.3f}", here.term,
                      std::chrono::duration<double>(here.not_before - clock(i)).count()));
  leave(i);
  begin_hosting(i, here.term, here.not_before);
  // They are told, and then their connections end, which nobody tells the core.
  for (const auto& [conn, voter] : std::exchange(n.seekers, {})) {
    send(conn, 1, msg::HostAt{here.term, {std::to_string(i)}, 1});
    close(conn, 1);
  }
  if (!n.workers) look(i);
}

void SuccessionWorld::carry_out(int i, const act::Nobody&) { all_[std::size_t(i)].look_at = clock(i) + 200ms; }

void SuccessionWorld::carry_out(int i, const act::Withdraw&) {
  leave(i);
  all_[std::size_t(i)].look_at = clock(i) + 500ms;
}

void SuccessionWorld::carry_out(int i, const act::Seek& seek) {
  Node& n = all_[std::size_t(i)];
  n.seeks = true;
  for (const Candidate& c : seek.candidates) {
    const int to = std::stoi(c.address);
    if (const auto it = n.sought.find(to); it != n.sought.end()) send(it->second, 0, n.core->seek());
    if (n.seek_at.try_emplace(to, clock(i)).second) n.seek_id[to] = c.voter;
  }
}

void SuccessionWorld::carry_out(int i, const act::StopSeeking&) {
  Node& n = all_[std::size_t(i)];
  n.seeks = false;
  n.seek_at.clear();
  n.seek_id.clear();
  for (const auto& [to, conn] : std::exchange(n.sought, {})) close(conn, 0);
}

void SuccessionWorld::carry_out(int i, const act::Propose& propose) {
  note(i, fmt::format("proposes itself, term {}", propose.ballot.term));
  for (const auto& [conn, seek] : all_[std::size_t(i)].seekers)
    if (propose.to == 0 || propose.to == seek.voter) send(conn, 1, propose.ballot);
}

void SuccessionWorld::carry_out(int i, const act::Answer& answer) {
  Node& n = all_[std::size_t(i)];
  note(i, fmt::format("{} term {}, age {} ms", answer.vote.granted ? "votes in" : "does not vote in", answer.vote.term,
                      answer.vote.age / 1'000'000));
  for (const auto& [to, conn] : n.sought)
    if (n.seek_id[to] == answer.candidate) send(conn, 0, answer.vote);
}

void SuccessionWorld::carry_out(int i, const act::Open&) {
  Node& n = all_[std::size_t(i)];
  n.host->holds = false;
  for (const auto& held : std::exchange(n.host->held, {})) host_perform(i, held);
}

void SuccessionWorld::carry_out(int i, const act::Deposed&) {
  note(i, "is deposed");
  leave(i);
  link_lost(i);
}

NodeInfo SuccessionWorld::info(int i) const {
  const Node& n = all_[std::size_t(i)];
  NodeInfo info;
  info.agent_id = info.host = n.agent;
  info.max_nodes = nodes_;
  info.attempt = n.attempts;
  info.address = std::to_string(i);
  info.port = 1;
  info.last = n.last;
  return info;
}

void SuccessionWorld::look(int i) {
  Node& n = all_[std::size_t(i)];
  n.look_at.reset();
  if (n.host) {
    n.link = -1;
    n.to = {{std::to_string(i)}, 1, n.core->term()};
    n.host->peers[0] = {n.agent, {}, {}, true};
    n.joined = n.follows = true;
    return to_host(i, 0, msg::Join{info(i)});
  }
  if (n.core->phase() == SuccessionCore::Phase::idle) return join(i, {{"0"}, 1, 0});
  feed(i, ev::Find{});
}

void SuccessionWorld::join(int i, const HostPlace& host) {
  Node& n = all_[std::size_t(i)];
  leave(i);
  n.look_at.reset();
  n.to = host;
  const auto life = n.life;
  const int to = std::stoi(host.addresses.at(0));
  const Id link = connect(i, to, false, [this, i, life](bool there) {
    Node& node = all_[std::size_t(i)];
    if (node.life != life) return;
    if (!there) {
      node.link = 0;
      feed(i, ev::Lost{node.to.term, {}});
      if (!node.look_at) node.look_at = clock(i) + std::chrono::milliseconds(draw(10, 1000));
      return;
    }
    node.echo = 0;
    node.hello_until = clock(i) + 3s;
    ++node.attempts;
    send(node.link, 0, msg::Join{info(i)});
  });
  n.link = link;
}

void SuccessionWorld::leave(int i) {
  Node& n = all_[std::size_t(i)];
  if (n.link > 0) close(n.link, 0);
  n.link = 0;
  n.joined = n.follows = false;
  n.pulse.reset();
  n.hello_until.reset();
}

void SuccessionWorld::link_lost(int i) {
  Node& n = all_[std::size_t(i)];
  const bool was_joined = n.joined;
  note(i, "has lost its host");
  if (n.host) end_hosting(i);
  leave(i);
  feed(i, ev::Lost{n.to.term, was_joined ? n.stamped : MonoTime{}});
  if (n.workers) {
    // A machine that stood still as a whole: what its workers do in the moment after is not looked at.
    const bool stood_still = n.stalled > 100ms;
    const auto grace = std::chrono::milliseconds(stood_still ? 0 : draw(0, int(kPulse.kill_grace() / 1ms)));
    n.workers->killed_at = std::min(n.workers->killed_at, clock(i) + grace);
    n.workers->over_at = MonoTime::max();
  } else if (!n.look_at) {
    n.look_at = clock(i) + std::chrono::milliseconds(draw(10, 500));
  }
}

void SuccessionWorld::beat(int i) {
  Node& n = all_[std::size_t(i)];
  const auto due = n.pulse->step(clock(i));
  if (due == LinkPulse::Due::dead) return link_lost(i);
  if (due != LinkPulse::Due::ping) return;
  send(n.link, 0, msg::Ping{clock(i).time_since_epoch().count(), n.echo, n.last.term == n.to.term ? n.last.round : -1});
}

}  // namespace dtrain::sim
