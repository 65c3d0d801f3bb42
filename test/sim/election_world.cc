#include "test/sim/election_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

namespace dtrain::sim {

using namespace std::chrono_literals;
namespace act = election_action;
namespace ev = election_event;

namespace {
constexpr auto kFaulty = 25s;
constexpr auto kGood = 15s;
}  // namespace

void ElectionWorld::ModelEtcd::expire(MonoTime now) {
  std::erase_if(leases, [&](const auto& lease) { return now >= lease.second.ends; });
  if (key && !leases.contains(key->lease)) key.reset(), ++revision;
  if (!leases.contains(record_lease)) record_lease = 0;
}

ElectionWorld::ElectionWorld(std::uint64_t seed) : random_(seed) {
  agents_.resize(std::size_t(draw(2, 5)));
  loss_ = draw(0, 30);
  slowest_ms_ = draw(2, 900);
  const auto drawn = [this] { return NodeClock::drawn(random_, now_, draw(10, 1'000'000) * 1s); };
  etcd_clock_ = drawn();
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    agents_[i].clock = drawn();
    start(i);
  }
}

Duration ElectionWorld::rarely(double seconds) {
  return std::chrono::microseconds(std::int64_t(std::exponential_distribution(1e-6 / seconds)(random_)));
}

void ElectionWorld::note(std::size_t i, const std::string& text) {
  trace_ +=
      fmt::format("{:>9.3f} {} {}\n", std::chrono::duration<double>(now_.time_since_epoch() - 1h).count(), i, text);
}

void ElectionWorld::fail(const std::string& why) const { throw std::runtime_error(why); }

// A new agent on this machine.
void ElectionWorld::start(std::size_t i) {
  const NodeClock clock = agents_[i].clock;
  agents_[i] = {};
  agents_[i].clock = clock;
  agents_[i].life = ++lives_;
  agents_[i].core = std::make_unique<ElectionCore>(settings_);
  note(i, "starts");
  feed(i, ev::Find{});
}

// ---- time -----------------------------------------------------------------------------------------------------------

void ElectionWorld::run() {
  const MonoTime healed = now_ + kFaulty, end = healed + kGood;
  MonoTime next_fault = now_ + rarely(0.3);
  while (now_ < end) {
    advance(faulty_ ? std::min(healed, next_fault) : end);
    if (faulty_ && now_ >= healed) heal();
    if (faulty_ && now_ >= next_fault) {
      fault();
      next_fault = now_ + rarely(0.3);
    }
    etcd_.expire(etcd_clock_.at(now_));
    while (!queue_.empty() && queue_.begin()->first <= now_) {
      const auto next = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
      next();
    }
    for (std::size_t i = 0; i < agents_.size(); ++i) step(i);
    check();
  }
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (sure(i)) return;
  fail("there is no host");
}

// To the next moment at which something happens; timers go off up to a millisecond late.
void ElectionWorld::advance(MonoTime latest) {
  MonoTime next = std::min(latest, queue_.empty() ? latest : queue_.begin()->first);
  for (const auto& [id, lease] : etcd_.leases) next = std::min(next, etcd_clock_.when(lease.ends));
  for (const Agent& a : agents_) {
    MonoTime due = std::min(a.find_at.value_or(MonoTime::max()), a.told != 0 ? a.told_lost : MonoTime::max());
    if (const auto at = a.core->deadline()) due = std::min(due, a.clock.when(*at));
    next = std::min(next, now_ < a.frozen_until ? a.frozen_until : due);
  }
  now_ = std::max(now_ + 1ms, next);
}

void ElectionWorld::fault() {
  const std::size_t i = std::size_t(draw(0, int(agents_.size()) - 1));
  Agent& a = agents_[i];
  const int what = draw(0, 9);
  if (what < 6) {
    a.cut = !a.cut;
    note(i, a.cut ? "is cut off from etcd" : "reaches etcd again");
  } else if (what < 9) {
    a.frozen_until = std::max(a.frozen_until, now_ + std::chrono::milliseconds(draw(1, 5000)));
    note(i, "stalls");
  } else {
    start(i);
  }
}

void ElectionWorld::heal() {
  faulty_ = false;
  loss_ = 0;
  slowest_ms_ = 5;
  for (Agent& a : agents_) a.cut = false;
}

// One is sure at a time; and a node of it may have had an answer now.
void ElectionWorld::check() {
  int hosts = 0;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (!sure(i)) continue;
    if (++hosts > 1) fail("two hosts are sure of themselves");
    if (now_ >= agents_[i].frozen_until) answered_[agents_[i].core->term()] = now_;
  }
}

void ElectionWorld::step(std::size_t i) {
  Agent& a = agents_[i];
  if (now_ < a.frozen_until) return;
  if (a.find_at && now_ >= *a.find_at) {
    a.find_at.reset();
    feed(i, ev::Find{});
  }
  if (const auto at = a.core->deadline(); at && clock(i) >= *at) feed(i, ev::Tick{});
  if (a.watches && !a.cut && etcd_.revision != a.watched) {
    a.watched = etcd_.revision;
    feed(i, ev::Changed{});
  }
  // The links of agents to a host that is none any more break in the end.
  const bool gone = a.told != 0 && (!etcd_.key || etcd_.key->term != a.told);
  if (!gone) a.told_lost = MonoTime::max();
  if (a.core->leads() || !gone) return;
  if (a.told_lost == MonoTime::max()) a.told_lost = now_ + rarely(0.3);
  if (now_ < a.told_lost) return;
  feed(i, ev::Lost{std::exchange(a.told, 0)});
  feed(i, ev::Find{});
}

// ---- what an agent does ---------------------------------------------------------------------------------------------

// `what` at etcd, then its answer; either may be lost, and what is lost may still be tried again by the client.
void ElectionWorld::call(std::size_t i, const std::function<ElectionEvent()>& what, const ElectionEvent& failed,
                         Duration limit) {
  const auto answered = std::make_shared<bool>(false);
  const auto answer = [this, i, answered, life = agents_[i].life](const ElectionEvent& event) {
    if (!std::exchange(*answered, true) && agents_[i].life == life) feed(i, event);
  };
  const bool twice = draw(0, 9) == 0;
  for (int copy = 0; copy < (twice ? 2 : 1); ++copy) {
    if (agents_[i].cut || draw(0, 99) < loss_) continue;
    queue_.emplace(later(), [this, i, what, answer] {
      const ElectionEvent event = what();
      if (agents_[i].cut || draw(0, 99) < loss_) return;
      queue_.emplace(later(), [answer, event] { answer(event); });
    });
  }
  queue_.emplace(now_ + limit, [answer, failed] { answer(failed); });
}

void ElectionWorld::feed(std::size_t i, const ElectionEvent& event) {
  if (now_ < agents_[i].frozen_until) {
    queue_.emplace(agents_[i].frozen_until, [this, i, event, life = agents_[i].life] {
      if (agents_[i].life == life) feed(i, event);
    });
    return;
  }
  for (const auto& action : agents_[i].core->step(event, clock(i)))
    std::visit([&](const auto& a) { perform(i, a); }, action);
}

void ElectionWorld::perform(std::size_t i, const act::Look&) {
  const auto look = [this] { return ev::Looked{etcd_.key}; };
  call(i, look, ev::Failed{"look"}, 1s);
}

void ElectionWorld::perform(std::size_t i, const act::Grant&) {
  const auto grant = [this, sent = clock(i)] {
    const auto lease = ++etcd_.leases_made, record = ++etcd_.leases_made;
    const auto now = etcd_clock_.at(now_);
    etcd_.leases[lease] = {now + 2s, 2s};
    etcd_.leases[record] = {now + 60s, 60s};
    return ev::Granted{lease, record, 2s, sent};
  };
  call(i, grant, ev::Failed{"grant"}, 1s);
}

void ElectionWorld::perform(std::size_t i, const act::Campaign& c) {
  const auto campaign = [this, c]() -> ElectionEvent {
    if (etcd_.key) return ev::Campaigned{false, false, etcd_.key};
    if (!etcd_.leases.contains(c.lease)) return ev::Failed{"no such lease"};
    etcd_.key = ElectedHost{"", std::uint64_t(++etcd_.revision), c.lease};
    const bool record = std::exchange(etcd_.record_lease, c.record_lease) != 0;
    return ev::Campaigned{true, record, etcd_.key};
  };
  call(i, campaign, ev::Failed{"campaign"}, 1s);
}

void ElectionWorld::perform(std::size_t i, const act::Keep& keep) {
  const auto extend = [this, keep, sent = clock(i)] {
    const auto lease = etcd_.leases.find(keep.lease);
    if (lease == etcd_.leases.end()) return ev::Kept{false, sent};
    lease->second.ends = etcd_clock_.at(now_) + lease->second.ttl;
    return ev::Kept{true, sent};
  };
  call(i, extend, ev::NotKept{}, keep.limit);
}

void ElectionWorld::perform(std::size_t i, const act::KeepRecord& keep) {
  const auto extend = [this, keep] {
    if (etcd_.leases.contains(keep.lease)) etcd_.leases[keep.lease].ends = etcd_clock_.at(now_) + 60s;
    return ev::Tick{};
  };
  call(i, extend, ev::Tick{}, 1s);
}

void ElectionWorld::perform(std::size_t i, const act::Revoke& revoke) {
  const auto end = [this, revoke] {
    etcd_.leases.erase(revoke.lease);
    etcd_.expire(etcd_clock_.at(now_));
    return ev::Tick{};
  };
  call(i, end, ev::Tick{}, 1s);
}

void ElectionWorld::perform(std::size_t i, const act::Watch&) {
  agents_[i].watches = true;
  agents_[i].watched = 0;
}

// Its first round comes after the last worker of every host before.
void ElectionWorld::perform(std::size_t i, const act::Here& here) {
  const MonoTime opens = std::max(agents_[i].clock.when(here.not_before), now_);
  note(i, fmt::format("is the host, term {}, not before {:+.3f}", here.term,
                      std::chrono::duration<double>(opens - now_).count()));
  const Duration stops = settings_.pulse.stop_after() + settings_.pulse.kill_grace();
  const NodeClock slowest{{}, -NodeClock::kMostPpm};
  for (const auto& [term, last] : answered_) {
    if (term >= here.term) fail(fmt::format("term {} after {}", here.term, term));
    if (slowest.at(opens) < slowest.at(last) + stops)
      fail(fmt::format("the host of term {} does not wait for the nodes of that of term {}", here.term, term));
    ++followed_;
  }
}

void ElectionWorld::perform(std::size_t i, const act::There& there) {
  note(i, fmt::format("hears of the host of term {}", there.host.term));
  agents_[i].told = there.host.term;
  agents_[i].told_lost = MonoTime::max();
}

void ElectionWorld::perform(std::size_t i, const act::Nobody&) { agents_[i].find_at = now_ + 100ms; }

void ElectionWorld::perform(std::size_t i, const act::Deposed& deposed) {
  note(i, "is deposed: " + deposed.why);
  agents_[i].find_at = now_ + 10ms;
}

}  // namespace dtrain::sim
