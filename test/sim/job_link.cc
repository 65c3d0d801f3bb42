// The links of a simulated job: ordered streams that are slow, silent one way or both, cut and made again. JoinCore
// makes them at a node; what RoundLink does there, and RoundHost at the other end, is repeated here.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "test/sim/job_world.h"

namespace dtrain::sim {

using namespace std::chrono_literals;
namespace join_event = launcher::join_event;
namespace join_action = launcher::join_action;

void World::joins(Agent& a, const launcher::JoinEvent& event) {
  if (!a.alive || a.finished || a.over) return;
  const launcher::JoinScene scene{&a == &agents_.front(), false, "the endpoint", ""};
  for (const auto& action : a.joining->step(event, scene, clock(a))) carry_out(a, action);
  arm_joining(a);
}

void World::arm_joining(Agent& a) {
  const int timer = ++a.join_timer;
  const auto at = a.joining->deadline();
  if (!at || a.over) return;
  on(a, a.clock.when(*at), [this, &a, timer] {
    if (timer == a.join_timer) joins(a, join_event::Tick{});
  });
}

void World::carry_out(Agent& a, const launcher::JoinAction& action) {
  // The endpoint is known to all, and who has it is the host.
  if (std::holds_alternative<join_action::Find>(action)) return joins(a, join_event::Found{});
  if (std::holds_alternative<join_action::Dial>(action)) return dial(a);
  if (const auto* end = std::get_if<join_action::GiveUp>(&action)) return ends_joining(a, end->verdict, end->grace);
  if (std::holds_alternative<join_action::GiveUpPort>(action))
    return ends_joining(a, {JobEnd::refused, 125, -1, "the port is another's"}, {});
  const auto* part = std::get_if<join_action::Part>(&action);
  if (part == nullptr) return;
  feed(a, launcher::event::HostLost{part->reason, part->grace});
  if (!a.in_round) begin_to_join(a);
}

void World::ends_joining(Agent& a, const Verdict& verdict, std::optional<Duration> grace) {
  require(!verdict.reason.empty(), "a node gives up without a reason");
  a.over = true;
  on(a, now_, [this, &a, verdict, grace] { feed(a, launcher::event::JobEnded{verdict, grace}); });
}

void World::dial(Agent& a) {
  require(!a.in_round, "a node joins that may have workers");
  if (!agents_.front().alive) return joins(a, join_event::Unreachable{"connection refused", true});
  const MemberId id = ++last_link_;
  a.link = id;
  a.joined = false;
  Link& link = links_[id];
  link.agent = &a;
  link.up_silent = a.up_silent;
  link.down_silent = a.down_silent;
  if (across_hosts_ && &a != &agents_.front()) link.silence.emplace(pulse_, host_clock());
  ++a.info.attempt;
  say(a, msg::Join{a.info});
  on(a, now_ + 3s, [this, &a, id] {
    if (a.link == id && !a.joined && links_[id].open) lost_link(a, "it does not answer");
  });
}

// The agent's end of the link has come to its end.
void World::lost_link(Agent& a, const std::string& reason) {
  close_from_agent(a);
  if (!a.joined) return joins(a, join_event::TurnedAway{reason, !across_hosts_ && !reason.empty(), false});
  on(a, now_, [this, &a, reason] { joins(a, join_event::LinkLost{reason}); });
}

void World::deliver_up(MemberId id, std::function<void()> what) {
  Link& link = links_.at(id);
  const bool own = link.agent == &agents_.front();
  link.up = std::max(link.up, now_ + (own ? 10us : between(100us, 30ms) * link.agent->slow));
  on(agents_.front(), link.up, [this, id, what = std::move(what)] {
    Link& l = links_.at(id);
    if (!l.host_open) return;
    if (l.up_silent || !l.up_held.empty()) {
      l.up_held.push_back(what);
    } else {
      what();
    }
  });
}

void World::deliver_down(MemberId id, std::function<void()> what) {
  Link& link = links_.at(id);
  const bool own = link.agent == &agents_.front();
  link.down = std::max(link.down, now_ + (own ? 10us : between(100us, 30ms) * link.agent->slow));
  on(*link.agent, link.down, [this, id, what = std::move(what)] {
    Link& l = links_.at(id);
    if (!l.open) return;
    if (l.down_silent || !l.down_held.empty()) {
      l.down_held.push_back(what);
    } else {
      what();
    }
  });
}

void World::release(Link& link) {
  link.up_silent = link.down_silent = false;
  const auto up = std::exchange(link.up_held, {});
  const auto down = std::exchange(link.down_held, {});
  for (const auto& each : up) {
    on(agents_.front(), now_, [&link, what = each] {
      if (link.host_open) what();
    });
  }
  for (const auto& each : down) {
    on(*link.agent, now_, [&link, what = each] {
      if (link.open) what();
    });
  }
}

void World::say(Agent& a, RoundMessage message) {
  const MemberId id = a.link;
  if (id == 0 || !links_.at(id).open) return;
  ++tally_.messages;
  deliver_up(id, [this, id, message] { hear(id, message); });
}

void World::tell(MemberId id, RoundMessage message) {
  const auto it = links_.find(id);
  require(it != links_.end(), "a message to nobody");
  if (!it->second.host_open) return;
  ++tally_.messages;
  deliver_down(id, [this, id, message] {
    Agent& a = *links_.at(id).agent;
    if (a.link == id) received(a, message);
  });
}

// What was said before still arrives.
void World::close_from_agent(Agent& a) {
  const auto it = links_.find(a.link);
  if (it == links_.end() || !it->second.open) return;
  it->second.open = false;
  const MemberId id = it->first;
  deliver_up(id, [this, id] { gone(id); });
}

void World::close_from_host(MemberId id) {
  Link& link = links_.at(id);
  if (!link.host_open) return;
  link.host_open = false;
  deliver_down(id, [this, id] {
    Agent& a = *links_.at(id).agent;
    if (a.link == id) lost_link(a, "");
  });
}

// Nothing that is under way arrives, and both hear of it, each in its time.
void World::cut(Agent& a) {
  const auto it = links_.find(a.link);
  if (it == links_.end() || !it->second.open) return;
  note(fmt::format("the link of {} breaks", a.info.agent_id));
  a.troubled = true;
  Link& link = it->second;
  const MemberId id = it->first;
  const bool host_was_open = link.host_open;
  link.open = link.host_open = false;
  on(a, now_ + between(0ms, 500ms), [this, &a, id] {
    if (a.link == id) lost_link(a, "");
  });
  if (host_was_open)
    on(agents_.front(), now_ + between(0ms, 500ms), [this, id] {
      links_.at(id).host_open = true;
      gone(id);
    });
}

void World::received(Agent& a, const RoundMessage& message) {
  if (a.over || a.finished) return;
  if (!a.joined) {
    a.joined = true;
    say(a, msg::Here{});
    if (links_.at(a.link).silence) {
      a.pulse.emplace(pulse_, clock(a));
      beat(a);
    }
  }
  if (const auto* pong = std::get_if<msg::Pong>(&message)) {
    if (a.pulse) a.pulse->answered(MonoTime(MonoTime::duration(pong->sent)));
  } else if (const auto* open = std::get_if<msg::Open>(&message)) {
    const auto& places = rounds_.at(open->place.round).places;
    require(places.count(&a) != 0 && places.at(&a) == open->place, "a place that the host did not give");
    a.place = open->place;
    tally_.rejoins += a.joining->hostless();
    joins(a, join_event::Opened{});
    a.in_round = true;
    a.info.last = {0, open->place.round, open->place.node_rank, open->place.nodes, open->place.restart_count};
    feed(a, launcher::event::RoundOpened{open->place.round, open->place.restart_count});
  } else if (const auto* stop = std::get_if<msg::Stop>(&message)) {
    require(!stop->reason.empty(), "a stop without a reason");
    feed(a, launcher::event::RoundStopped{stop->signal, stop->reason});
  } else if (const auto* end = std::get_if<msg::End>(&message)) {
    a.over = true;
    feed(a, launcher::event::JobEnded{end->verdict, {}});
  } else if (const auto* refused = std::get_if<msg::Refused>(&message)) {
    close_from_agent(a);
    joins(a, join_event::Refused{refused->reason, refused->try_again});
  }
}

void World::beat(Agent& a) {
  const MemberId id = a.link;
  if (a.finished || a.over || !links_.at(id).open) return;
  const auto due = a.pulse->step(clock(a));
  if (due == LinkPulse::Due::dead) {
    note(fmt::format("{} hears nothing more", a.info.agent_id));
    require(a.troubled || agents_.front().troubled, "a healthy node cuts itself off");
    return lost_link(a, "no word from it");
  }
  if (due == LinkPulse::Due::ping) say(a, msg::Ping{clock(a).time_since_epoch().count()});
  require(a.pulse->deadline(clock(a)) > clock(a), "the pulse's timer does not rest");
  on(a, a.clock.when(a.pulse->deadline(clock(a))), [this, &a, id] {
    if (a.link == id) beat(a);
  });
}

void World::watch_silence(MemberId id) {
  Link& link = links_.at(id);
  if (!link.host_open || !link.silence) return;
  if (!link.silence->lost(host_clock())) {
    on(agents_.front(), agents_.front().clock.when(link.silence->deadline()), [this, id] { watch_silence(id); });
    return;
  }
  note(fmt::format("{} is silent", link.agent->info.agent_id));
  require(link.agent->troubled || agents_.front().troubled, "a healthy node is taken for lost");
  require(host_clock() - link.heard >= pulse_.interval * pulse_.attempts, "a node is given up before its time");
  close_from_host(id);
  link.host_open = true;
  gone(id);
}

}  // namespace dtrain::sim
