// The election's rules one by one; test/sim has them all together, with an etcd whose answers are late or lost.
#include "rendezvous/election/etcd_election_core.h"

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
  CHECK(core.sure(kStart + 1949ms));
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
  CHECK(core.bound() == kStart + 2450ms);
  CHECK(core.fenced_at() == kStart + 4950ms);
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
    CHECK_FALSE(find<act::Deposed>(core.step(ev::Tick{}, kStart + 3949ms)));
    CHECK(find<act::Deposed>(core.step(ev::Tick{}, kStart + 4s)));
  }
  SECTION("a write has found another's key") { CHECK(find<act::Deposed>(core.step(ev::Overtaken{}, kStart + 2100ms))); }
}
