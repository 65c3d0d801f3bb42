#pragma once
// Liveness of the links between hosts. Pure: times in, what is due out.
//
// A node's agent pings the host of the rounds, which answers at once. A ping carries the time, on the pinger's clock,
// at which it was sent, and the answer brings it back: so the node knows that the host has heard of it after that time,
// however long anything was under way. When that is too long ago, the node stops its workers, hard, and they are gone
// before the host, which gives a node up later, opens a round without it. Clocks of two hosts are never compared; each
// has to go on while its machine does, and to be less than 1 % fast or slow.
//
//   0            1            2      2.5    3      intervals (3 attempts) since the last ping that the host has heard
//   pings, 3 in each interval TERM   KILL          the node
//                                           lost   the host
#include <algorithm>
#include <chrono>

#include "rendezvous/base/clock.h"

namespace dtrain {

struct PulseSettings {
  Duration interval = std::chrono::seconds(1);
  int attempts = 3;  // >= 3: so many intervals of silence, and the host gives a node up

  // Between two pings: a part of the interval, so that little of stop_after() is over when a network begins to stall.
  Duration ping_every() const { return interval / 3; }
  // While answers are overdue. TCP sends a lost packet again after a time that doubles each time it is lost again; but
  // at once when packets that were sent after it have arrived. So there have to be some.
  Duration urgent_ping_every() const { return interval / 20; }
  // When a round has begun whose settling a node waits for (host_lease.h): so often, and for so long at most. The host
  // gets no more than 20,000 of these in an interval.
  Duration hurried_ping_every(int nodes) const {
    return std::min(ping_every(), interval * std::max(nodes, 200) / 20'000);
  }
  Duration hurry() const { return interval / 2; }
  // How long after the last word that the host has heard: the node stops its workers; kills what is left of them; the
  // host gives the node up.
  Duration stop_after() const { return interval * (attempts - 1); }
  Duration kill_grace() const { return interval / 2; }
  Duration lost_after() const { return interval * attempts; }
  // By then the workers of a node that does not hear of its host are dead.
  Duration fenced_after() const { return stop_after() + kill_grace(); }
  // An agent that somebody stopped (SIGSTOP) is killed after that, and its guard kills its workers. Its last ping may
  // have been sent one interval before it was stopped, so the host gives it up stop_after() later at the earliest.
  Duration stopped_lease() const { return stop_after() - kill_grace(); }
  // What one host waits for so that this time is over on another's clock, and what is not over there before.
  static constexpr Duration on_any_clock(Duration time) { return time + time / kClockMargin; }
  static constexpr Duration before_any_clock(Duration time) { return time - time / kClockMargin; }
  static constexpr int kClockMargin = 40;
  bool operator==(const PulseSettings&) const = default;
};

// At a node.
class LinkPulse {
 public:
  enum class Due { nothing, ping, dead };

  // `said`: when this node said the last thing that the host has answered.
  LinkPulse(const PulseSettings& settings, MonoTime said) : settings_(settings), pinged_(said), heard_(said) {}

  // ping: send one now. dead: from now on, always.
  Due step(MonoTime now) {
    if (now >= heard_ + settings_.stop_after()) return Due::dead;
    if (now < next_ping(now)) return Due::nothing;
    pinged_ = now;
    return Due::ping;
  }
  // The host's answer to the ping sent at `sent`.
  void answered(MonoTime sent) {
    if (sent <= pinged_) heard_ = std::max(heard_, sent);
  }
  // Ping this often until then.
  void hurry(MonoTime until, Duration every) {
    hurry_until_ = until;
    hurried_ = every;
  }
  void calm() { hurry_until_ = {}; }
  // By then its workers are dead, should nothing more be heard.
  MonoTime fenced_at() const { return heard_ + settings_.fenced_after(); }
  // When step() is due.
  MonoTime deadline(MonoTime now) const { return std::min(next_ping(now), heard_ + settings_.stop_after()); }

 private:
  MonoTime next_ping(MonoTime now) const {
    const bool overdue = now >= heard_ + 2 * settings_.ping_every();
    const Duration usual = overdue ? settings_.urgent_ping_every() : settings_.ping_every();
    return pinged_ + (now < hurry_until_ ? std::min(usual, hurried_) : usual);
  }

  PulseSettings settings_;
  MonoTime pinged_;
  MonoTime heard_;
  MonoTime hurry_until_{};
  Duration hurried_{};
};

// At the host, of one node.
class LinkSilence {
 public:
  LinkSilence(const PulseSettings& settings, MonoTime now) : settings_(settings), heard_(now) {}

  void heard(MonoTime now) { heard_ = now; }
  bool lost(MonoTime now) const { return now >= deadline(); }
  MonoTime deadline() const { return heard_ + settings_.lost_after(); }
  // By then the node has killed its workers, if it lives and hears nothing more from here.
  MonoTime fenced_at() const { return heard_ + PulseSettings::on_any_clock(settings_.fenced_after()); }

 private:
  PulseSettings settings_;
  MonoTime heard_;
};

}  // namespace dtrain
