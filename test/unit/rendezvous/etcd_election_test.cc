// The election's rules one by one, then many agents with an etcd whose answers are late or lost: one host at a time is
// sure of itself, and whoever follows waits until the nodes of the one before have stopped.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "rendezvous/etcd_election_core.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;
namespace act = election_action;
namespace ev = election_event;

namespace {

constexpr MonoTime kStart{};
const ElectionSettings kSettings;

template <class T>
const T* find(const std::vector<ElectionAction>& actions) {
  for (const auto& action : actions)
    if (const T* found = std::get_if<T>(&action)) return found;
  return nullptr;
}

// A core that hosts since kStart, with a lease of 2 s.
ElectionCore host() {
  ElectionCore core(kSettings);
  core.step(ev::Find{}, kStart);
  core.step(ev::Looked{}, kStart);
  core.step(ev::Granted{7, 8, 2s, kStart}, kStart);
  core.step(ev::Campaigned{true, false, ElectedHost{"me", 5, 7}}, kStart);
  REQUIRE(core.leads());
  return core;
}

}  // namespace

TEST_CASE("election: nobody is there, so this agent makes the key and may begin at once") {
  ElectionCore core(kSettings);
  CHECK(find<act::Look>(core.step(ev::Find{}, kStart)));
  CHECK(core.step(ev::Find{}, kStart).empty());
  CHECK(find<act::Grant>(core.step(ev::Looked{}, kStart)));
  const auto campaign = core.step(ev::Granted{7, 8, 2s, kStart}, kStart + 1s);
  REQUIRE(find<act::Campaign>(campaign));
  CHECK(find<act::Campaign>(campaign)->lease == 7);
  const auto won = core.step(ev::Campaigned{true, false, ElectedHost{"me", 5, 7}}, kStart + 1s);
  REQUIRE(find<act::Here>(won));
  CHECK(find<act::Here>(won)->term == 5);
  CHECK(find<act::Here>(won)->not_before == MonoTime{});
  CHECK(core.sure(kStart + 1999ms));
  CHECK_FALSE(core.sure(kStart + 2s));
}

TEST_CASE("election: another one is the host") {
  ElectionCore core(kSettings);
  core.step(ev::Find{}, kStart);
  auto there = core.step(ev::Looked{ElectedHost{"other", 3, 9}}, kStart);
  REQUIRE(find<act::There>(there));
  CHECK(find<act::There>(there)->host.value == "other");
  CHECK(core.deadline() == std::nullopt);
  // Its link breaks; its key is watched, and until it goes there is nothing new to say unasked.
  CHECK(find<act::Watch>(core.step(ev::Lost{3}, kStart)));
  CHECK(core.step(ev::Lost{3}, kStart).empty());
  CHECK(core.step(ev::Changed{}, kStart).empty());
  CHECK(find<act::Look>(core.step(ev::Find{}, kStart)));
  CHECK(core.step(ev::Looked{ElectedHost{"other", 3, 9}}, kStart).empty());
  REQUIRE(core.deadline());
  CHECK(find<act::There>(core.step(ev::Tick{}, *core.deadline())));
  CHECK(core.deadline() == std::nullopt);
  // It goes: the next host waits for the fence.
  CHECK(find<act::Look>(core.step(ev::Changed{}, kStart + 2s)));
  CHECK(find<act::Grant>(core.step(ev::Looked{}, kStart + 2s)));
  core.step(ev::Granted{7, 8, 2s, kStart + 2s}, kStart + 3s);
  const auto won = core.step(ev::Campaigned{true, false, ElectedHost{"me", 5, 7}}, kStart + 3s);
  REQUIRE(find<act::Here>(won));
  CHECK(find<act::Here>(won)->not_before == kStart + 3s + kSettings.fence());
  CHECK(find<act::StopWatching>(won));
}

TEST_CASE("election: an answer that was lost is found by the lease") {
  ElectionCore core(kSettings);
  core.step(ev::Find{}, kStart);
  core.step(ev::Looked{}, kStart);
  core.step(ev::Granted{7, 8, 2s, kStart}, kStart);
  CHECK(find<act::Nobody>(core.step(ev::Failed{"no answer"}, kStart + 1s)));
  core.step(ev::Find{}, kStart + 1s);
  CHECK(find<act::Here>(core.step(ev::Looked{ElectedHost{"me", 5, 7}}, kStart + 1s)));
}

TEST_CASE("election: another one was faster") {
  ElectionCore core(kSettings);
  core.step(ev::Find{}, kStart);
  core.step(ev::Looked{}, kStart);
  core.step(ev::Granted{7, 8, 2s, kStart}, kStart);
  const auto lost = core.step(ev::Campaigned{false, false, ElectedHost{"other", 6, 9}}, kStart);
  CHECK(find<act::There>(lost));
  REQUIRE(find<act::Revoke>(lost));
  CHECK(find<act::Revoke>(lost)->lease == 7);  // not the record's
}

TEST_CASE("election: what changes while an answer is under way is looked at again") {
  ElectionCore core(kSettings);
  core.step(ev::Find{}, kStart);
  core.step(ev::Looked{ElectedHost{"other", 3, 9}}, kStart);
  core.step(ev::Lost{3}, kStart);
  core.step(ev::Find{}, kStart);
  CHECK(core.step(ev::Changed{}, kStart).empty());
  CHECK(find<act::Look>(core.step(ev::Looked{ElectedHost{"other", 3, 9}}, kStart)));
  CHECK(find<act::There>(core.step(ev::Looked{ElectedHost{"new", 4, 9}}, kStart)));
  // A watch that ends is begun again; a round that begins ends it.
  CHECK(find<act::Watch>(core.step(ev::Changed{true}, kStart)));
  CHECK(find<act::StopWatching>(core.step(ev::Opened{}, kStart)));
  CHECK(core.step(ev::Changed{}, kStart).empty());
}

TEST_CASE("election: the host keeps its lease, counted from when it asked") {
  auto core = host();
  CHECK(core.deadline() == kStart + 500ms);
  CHECK(core.step(ev::Tick{}, kStart + 499ms).empty());
  const auto keep = core.step(ev::Tick{}, kStart + 500ms);
  REQUIRE(find<act::Keep>(keep));
  CHECK(find<act::Keep>(keep)->lease == 7);
  core.step(ev::Kept{true, kStart + 500ms}, kStart + 1500ms);
  CHECK(core.bound() == kStart + 2500ms);
  CHECK(core.fenced_at() == kStart + 5s);
  CHECK(core.deadline() == kStart + 1500ms);
  // No answer: again at once.
  core.step(ev::Tick{}, kStart + 1500ms);
  core.step(ev::NotKept{}, kStart + 2s);
  CHECK(core.deadline() == kStart + 2s);
}

TEST_CASE("election: a host whose own link breaks is none any more") {
  auto core = host();
  CHECK(core.step(ev::Lost{4}, kStart + 1s).empty());
  CHECK(core.leads());
  CHECK(core.fenced_at());
  const auto lost = core.step(ev::Lost{5}, kStart + 1s);
  CHECK(find<act::Revoke>(lost));
  CHECK_FALSE(find<act::Deposed>(lost));
  CHECK_FALSE(core.leads());
  CHECK(find<act::Look>(core.step(ev::Find{}, kStart + 1s)));
}

TEST_CASE("election: a host in doubt is sure again if its lease was alive, or deposed") {
  auto core = host();
  core.step(ev::Tick{}, kStart + 500ms);
  CHECK(find<act::Doubt>(core.step(ev::Tick{}, kStart + 2s)));
  CHECK_FALSE(core.sure(kStart + 2s));
  SECTION("an old answer does not help") {
    core.step(ev::Kept{true, kStart + 100ms}, kStart + 2200ms);
    CHECK_FALSE(core.sure(kStart + 2200ms));
  }
  SECTION("alive") {
    CHECK(find<act::Sure>(core.step(ev::Kept{true, kStart + 2s}, kStart + 3s)));
    CHECK(core.sure(kStart + 3900ms));
  }
  SECTION("gone") {
    const auto gone = core.step(ev::Kept{false, kStart + 2s}, kStart + 3s);
    CHECK(find<act::Deposed>(gone));
    CHECK(find<act::Revoke>(gone));
    CHECK_FALSE(core.leads());
  }
  SECTION("no answer") {
    CHECK_FALSE(find<act::Deposed>(core.step(ev::Tick{}, kStart + 3999ms)));
    CHECK(find<act::Deposed>(core.step(ev::Tick{}, kStart + 4s)));
  }
  SECTION("a write has found another's key") { CHECK(find<act::Deposed>(core.step(ev::Overtaken{}, kStart + 2100ms))); }
}

// ---- many agents, a bad network -------------------------------------------------------------------------------------

namespace {

// etcd itself is right; what goes to it and comes back may be late, twice or lost.
struct ModelEtcd {
  struct Lease {
    MonoTime ends;
    Duration ttl;
  };
  std::int64_t revision = 1, leases_made = 0;
  std::map<std::int64_t, Lease> leases;
  std::optional<ElectedHost> key;
  std::int64_t record_lease = 0;

  void expire(MonoTime now) {
    std::erase_if(leases, [&](const auto& lease) { return now >= lease.second.ends; });
    if (key && !leases.contains(key->lease)) key.reset(), ++revision;
    if (!leases.contains(record_lease)) record_lease = 0;
  }
};

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) agents_.emplace_back();
    loss_ = draw(0, 30);
    slowest_ = std::chrono::milliseconds(draw(2, 900));
    for (std::size_t i = 0; i < agents_.size(); ++i) feed(i, ev::Find{});
  }

  void run(Duration time, bool good) {
    const MonoTime end = now_ + time;
    if (good) loss_ = 0, slowest_ = 5ms;
    while (now_ < end) {
      now_ += 1ms;
      etcd_.expire(now_);
      while (!queue_.empty() && queue_.begin()->first <= now_) {
        auto next = queue_.begin()->second;
        queue_.erase(queue_.begin());
        next();
      }
      for (std::size_t i = 0; i < agents_.size(); ++i) step(i, good);
      check();
    }
  }

  bool has_host() const { return hosts() == 1; }
  int followed() const { return followed_; }

 private:
  struct Agent {
    ElectionCore core{kSettings};
    bool cut = false;  // from etcd
    bool watches = false;
    std::int64_t watched = 0;  // revision
    std::uint64_t told = 0;    // the host that it was told of
    MonoTime find_at{};        // after Nobody
    MonoTime frozen_until{};   // it does not run
  };

  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  MonoTime later() { return now_ + std::chrono::milliseconds(draw(1, int(slowest_ / 1ms))); }
  long hosts() const {
    return std::count_if(agents_.begin(), agents_.end(), [&](const Agent& a) { return a.core.sure(now_); });
  }

  void check() {
    if (hosts() > 1) FAIL("two hosts at " << (now_ - kStart) / 1ms << " ms");
    // A node of this host has had an answer now.
    for (const Agent& a : agents_)
      if (a.core.sure(now_) && now_ >= a.frozen_until) answered_[a.core.term()] = now_;
  }

  void step(std::size_t i, bool good) {
    Agent& a = agents_[i];
    if (good)
      a.cut = false;
    else if (draw(0, 3000) == 0)
      a.cut = !a.cut;
    if (!good && draw(0, 8000) == 0) a.frozen_until = now_ + std::chrono::milliseconds(draw(1, 5000));
    if (now_ < a.frozen_until) return;
    if (a.find_at != MonoTime{} && now_ >= a.find_at) {
      a.find_at = {};
      feed(i, ev::Find{});
    }
    if (const auto at = a.core.deadline(); at && now_ >= *at) feed(i, ev::Tick{});
    if (a.watches && !a.cut && etcd_.revision != a.watched) {
      a.watched = etcd_.revision;
      feed(i, ev::Changed{});
    }
    // The links of agents to a host that is none any more break in the end.
    if (!a.core.leads() && a.told != 0 && (!etcd_.key || etcd_.key->term != a.told) && draw(0, 300) == 0) {
      const auto term = std::exchange(a.told, 0);
      feed(i, ev::Lost{term});
      feed(i, ev::Find{});
    }
  }

  // `what` at etcd, then its answer; either may be lost, and what is lost may still be tried again by the client.
  void call(std::size_t i, const std::function<ElectionEvent()>& what, const ElectionEvent& failed, Duration limit) {
    const auto answered = std::make_shared<bool>(false);
    const auto answer = [this, i, answered](const ElectionEvent& event) {
      if (!std::exchange(*answered, true)) feed(i, event);
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

  void feed(std::size_t i, const ElectionEvent& event) {
    if (now_ < agents_[i].frozen_until) {
      queue_.emplace(agents_[i].frozen_until, [this, i, event] { feed(i, event); });
      return;
    }
    for (const auto& action : agents_[i].core.step(event, now_))
      std::visit([&](const auto& a) { perform(i, a); }, action);
  }

  void perform(std::size_t i, const act::Look&) {
    call(
        i, [this] { return ev::Looked{etcd_.key}; }, ev::Failed{"look"}, 1s);
  }
  void perform(std::size_t i, const act::Grant&) {
    call(
        i,
        [this, sent = now_] {
          const auto lease = ++etcd_.leases_made, record = ++etcd_.leases_made;
          etcd_.leases[lease] = {now_ + 2s, 2s};
          etcd_.leases[record] = {now_ + 60s, 60s};
          return ev::Granted{lease, record, 2s, sent};
        },
        ev::Failed{"grant"}, 1s);
  }
  void perform(std::size_t i, const act::Campaign& campaign) {
    call(
        i,
        [this, campaign]() -> ElectionEvent {
          if (etcd_.key) return ev::Campaigned{false, false, etcd_.key};
          if (!etcd_.leases.contains(campaign.lease)) return ev::Failed{"no such lease"};
          etcd_.key = ElectedHost{"", std::uint64_t(++etcd_.revision), campaign.lease};
          const bool record = std::exchange(etcd_.record_lease, campaign.record_lease) != 0;
          return ev::Campaigned{true, record, etcd_.key};
        },
        ev::Failed{"campaign"}, 1s);
  }
  void perform(std::size_t i, const act::Keep& keep) {
    call(
        i,
        [this, keep, sent = now_] {
          const auto lease = etcd_.leases.find(keep.lease);
          if (lease == etcd_.leases.end()) return ev::Kept{false, sent};
          lease->second.ends = now_ + lease->second.ttl;
          return ev::Kept{true, sent};
        },
        ev::NotKept{}, keep.limit);
  }
  void perform(std::size_t i, const act::KeepRecord& keep) {
    call(
        i,
        [this, keep] {
          if (etcd_.leases.contains(keep.lease)) etcd_.leases[keep.lease].ends = now_ + 60s;
          return ev::Tick{};
        },
        ev::Tick{}, 1s);
  }
  void perform(std::size_t i, const act::Revoke& revoke) {
    call(
        i,
        [this, revoke] {
          etcd_.leases.erase(revoke.lease);
          return ev::Tick{};
        },
        ev::Tick{}, 1s);
  }
  void perform(std::size_t i, const act::Watch&) {
    agents_[i].watches = true;
    agents_[i].watched = 0;
  }
  void perform(std::size_t i, const act::StopWatching&) { agents_[i].watches = false; }
  void perform(std::size_t, const act::Here& here) {
    for (const auto& [term, last] : answered_) {
      REQUIRE(term < here.term);
      REQUIRE(std::max(here.not_before, now_) >= last + kSettings.fence());
      ++followed_;
    }
  }
  void perform(std::size_t i, const act::There& there) { agents_[i].told = there.host.term; }
  void perform(std::size_t i, const act::Nobody&) { agents_[i].find_at = now_ + 100ms; }
  void perform(std::size_t, const act::Doubt&) {}
  void perform(std::size_t, const act::Sure&) {}
  void perform(std::size_t i, const act::Deposed&) { agents_[i].find_at = now_ + 10ms; }

  std::mt19937 random_;
  MonoTime now_ = kStart + 1h;
  ModelEtcd etcd_;
  std::vector<Agent> agents_;
  std::multimap<MonoTime, std::function<void()>> queue_;
  std::map<std::uint64_t, MonoTime> answered_;  // the last time that the host of a term was sure
  int loss_ = 0, followed_ = 0;
  Duration slowest_{};
};

}  // namespace

TEST_CASE("election: with lost, late and repeated calls there is one host at a time, and in the end there is one") {
  int followed = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    World world(seed);
    world.run(25s, false);
    world.run(15s, true);
    REQUIRE(world.has_host());
    followed += world.followed();
  }
  CHECK(followed > 200);
}
