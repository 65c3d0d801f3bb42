// The times of a link between hosts: whatever is lost or late, a node has no workers when the host gives it up.
#include "rendezvous/rounds/link_pulse.h"

#include <algorithm>
#include <random>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {
const MonoTime kStart{100s};
}

TEST_CASE("a node pings three times in an interval, and lives as long as the host answers") {
  const PulseSettings settings{3s};
  LinkPulse pulse(settings, kStart);
  CHECK(pulse.deadline(kStart) == kStart + 1s);
  CHECK(pulse.step(kStart) == LinkPulse::Due::nothing);
  for (int i = 1; i < 100; ++i) {
    const MonoTime now = kStart + i * 1s;
    REQUIRE(pulse.step(now) == LinkPulse::Due::ping);
    CHECK(pulse.step(now) == LinkPulse::Due::nothing);
    pulse.answered(now);
  }
}

TEST_CASE("while answers are overdue it pings more often") {
  LinkPulse pulse({3s}, kStart);
  REQUIRE(pulse.step(kStart + 1s) == LinkPulse::Due::ping);
  CHECK(pulse.deadline(kStart + 1s) == kStart + 2s);
  for (auto now = 2s + 0ms; now < 3s; now += 150ms) {
    REQUIRE(pulse.step(kStart + now) == LinkPulse::Due::ping);
    CHECK(pulse.deadline(kStart + now) == kStart + now + 150ms);
  }
  pulse.answered(kStart + 2s);
  CHECK(pulse.step(kStart + 3s) == LinkPulse::Due::nothing);
  CHECK(pulse.deadline(kStart + 3s) == kStart + 2900ms + 1s);
}

TEST_CASE("in a hurry it pings more often for a while") {
  LinkPulse pulse({}, kStart);
  REQUIRE(pulse.step(kStart + 400ms) == LinkPulse::Due::ping);
  pulse.answered(kStart + 400ms);
  pulse.hurry(kStart + 500ms, 50ms);
  CHECK(pulse.deadline(kStart + 400ms) == kStart + 450ms);
  REQUIRE(pulse.step(kStart + 450ms) == LinkPulse::Due::ping);
  CHECK(pulse.deadline(kStart + 500ms) == kStart + 450ms + Duration(1s) / 3);
  pulse.hurry(kStart + 5s, 50ms);
  pulse.calm();
  CHECK(pulse.deadline(kStart + 460ms) == kStart + 450ms + Duration(1s) / 3);
}

TEST_CASE("the more nodes, the less each of them hurries") {
  const PulseSettings settings{1s};
  CHECK(settings.hurried_ping_every(2) == 10ms);
  CHECK(settings.hurried_ping_every(200) == 10ms);
  CHECK(settings.hurried_ping_every(1000) == 50ms);
  CHECK(settings.hurried_ping_every(100'000) == settings.ping_every());
}

TEST_CASE("a node is dead two intervals after the last ping that was heard, however late its answer came") {
  LinkPulse pulse({}, kStart);
  REQUIRE(pulse.step(kStart + 1s) == LinkPulse::Due::ping);
  pulse.answered(kStart + 1s);  // at whatever time
  REQUIRE(pulse.step(kStart + 2s) == LinkPulse::Due::ping);
  CHECK(pulse.step(kStart + 2999ms) != LinkPulse::Due::dead);
  CHECK(pulse.step(kStart + 3s) == LinkPulse::Due::dead);
}

TEST_CASE("the guard's time is half an interval after the node's own, and is put off by what is heard") {
  LinkPulse pulse({}, kStart);
  CHECK(pulse.fenced_at() == kStart + 2500ms);
  pulse.step(kStart + 1s);
  pulse.answered(kStart + 1s);
  CHECK(pulse.fenced_at() == kStart + 3500ms);
}

TEST_CASE("a network that stalls for as long as an interval costs nobody its place") {
  for (auto begin = 0ms; begin < 1000ms; begin += 10ms) {
    constexpr auto kAway = 200ms;  // there and back
    const auto stalls = 5s + begin, goes_on = stalls + 1000ms;
    LinkPulse pulse({}, kStart);
    std::vector<std::pair<MonoTime, MonoTime>> answers;  // when, for what was sent when
    for (auto now = 0ms; now < 8s; now += 5ms) {
      for (const auto& [when, sent] : answers)
        if (when == kStart + now) pulse.answered(sent);
      const auto due = pulse.step(kStart + now);
      REQUIRE(due != LinkPulse::Due::dead);
      if (due != LinkPulse::Due::ping) continue;
      const bool held = now + kAway > stalls && now < goes_on;
      answers.emplace_back(kStart + (held ? goes_on + kAway : now + kAway), kStart + now);
    }
  }
}

TEST_CASE("an answer to what was never sent does not count") {
  LinkPulse pulse({}, kStart);
  pulse.answered(kStart + 1000s);
  pulse.step(kStart + 1s);
  CHECK(pulse.step(kStart + 2s) == LinkPulse::Due::dead);
}

TEST_CASE("the host gives up after three intervals of silence, when the node has killed its workers") {
  LinkSilence silence({}, kStart);
  silence.heard(kStart + 5s);
  CHECK_FALSE(silence.lost(kStart + 7999ms));
  CHECK(silence.lost(kStart + 8s));
  CHECK(silence.fenced_at() == kStart + 5s + PulseSettings::on_any_clock(2500ms));
  CHECK(silence.fenced_at() > kStart + 7550ms);
}

// A network that delays and loses what it likes, both ways.
TEST_CASE("the node's workers are dead before the host has given it up") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const PulseSettings settings{1s, 3 + int(random() % 4)};
    LinkPulse pulse(settings, kStart);
    LinkSilence silence(settings, kStart);
    struct Packet {
      MonoTime arrives;
      MonoTime sent;  // the ping
    };
    std::vector<Packet> to_host, to_node;
    const auto way = [&](MonoTime now) { return now + std::chrono::milliseconds(random() % 4000); };
    MonoTime killed = MonoTime::max(), lost = MonoTime::max();
    for (MonoTime now = kStart; lost == MonoTime::max() && now < kStart + 60s; now += 10ms) {
      for (const Packet& p : to_host)
        if (p.arrives == now) {
          silence.heard(now);
          if (random() % 4 != 0) to_node.push_back({way(now), p.sent});
        }
      for (const Packet& p : to_node)
        if (p.arrives <= now) pulse.answered(p.sent);
      const auto is_there = [now](const Packet& p) { return p.arrives <= now; };
      std::erase_if(to_host, is_there);
      std::erase_if(to_node, is_there);
      const auto due = killed == MonoTime::max() ? pulse.step(now) : LinkPulse::Due::nothing;
      if (due == LinkPulse::Due::ping && random() % 4 != 0)
        to_host.push_back({now + 10ms * (1 + int(random() % 300)), now});
      if (due == LinkPulse::Due::dead) killed = now + settings.kill_grace();
      if (silence.lost(now)) lost = now;
    }
    INFO("trial " << trial);
    if (lost != MonoTime::max()) CHECK(killed < lost);
    if (lost != MonoTime::max()) CHECK(killed <= silence.fenced_at() + 10ms);
  }
}
