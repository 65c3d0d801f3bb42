// N jobs want one entry of an object store: alone, beside others, with builders that die or stand still at any moment,
// and with a store that takes its time.
#include "data/objects/claim_plan.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "test/support/catch.h"

using namespace dtrain::data;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

ClaimSeen claim_of(const std::string& owner, unsigned beat = 0, bool is_dead = false) {
  ClaimSeen claim;
  claim.lease.owner = owner;
  claim.lease.beat = beat;
  claim.is_dead = is_dead;
  return claim;
}

constexpr int kBuildMs = 20'000, kLookMs = 1000;

// Each job does one thing at a time. A look and a write each take some time, and happen in the middle of it.
struct ClaimJob {
  enum class State { looks, builds, done, lost, dead } state = State::looks;
  std::string owner{};
  int host = 0;
  int busy_until = 0;
  std::function<void()> happens{};  // in the store
  int happens_at = 0;
  std::function<void()> then{};  // what it goes on with
  std::optional<ClaimWait> waiting{};
  int built_at = 0;
  int next_beat = 0;
  bool was_told = false;
};

class ClaimWorld {
 public:
  ClaimWorld(int jobs, int hosts, int slowest, unsigned seed) : slowest_(slowest), random_(seed) {
    for (int i = 0; i < jobs; ++i) {
      jobs_.emplace_back();
      ClaimJob& job = jobs_.back();
      job.owner = std::to_string(random_());
      job.host = i % hosts;
      job.busy_until = static_cast<int>(random_() % 3000);
      job.then = [this, &job] { look(job); };
      job.waiting.emplace(LeasePatience{}, LeaseTime(0), job.owner);
    }
  }

  void turn() {  // 20 ms
    std::vector<std::size_t> order(jobs_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t i : order) {
      ClaimJob& job = jobs_[i];
      if (is_over(job)) continue;
      if (job.happens && job.happens_at <= now_) std::exchange(job.happens, nullptr)();
      if (job.busy_until <= now_ && job.then) std::exchange(job.then, nullptr)();
    }
    now_ += 20;
  }

  static bool is_over(const ClaimJob& job) {
    return job.state != ClaimJob::State::looks && job.state != ClaimJob::State::builds;
  }
  bool all_over() const { return std::all_of(jobs_.begin(), jobs_.end(), is_over); }
  ClaimJob* builder() {
    const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                    [](const ClaimJob& job) { return job.state == ClaimJob::State::builds; });
    return found == jobs_.end() ? nullptr : &*found;
  }
  bool is_known_to_build() {
    const ClaimJob* const job = builder();
    return job != nullptr && claims_[job->owner] > 0;
  }
  int count(ClaimJob::State state) const {
    return static_cast<int>(
        std::count_if(jobs_.begin(), jobs_.end(), [&](const ClaimJob& job) { return job.state == state; }));
  }
  int run(int most_ms) {
    const int began = now_;
    while (!all_over() && now_ - began < most_ms) turn();
    return now_ - began;
  }
  int now() const { return now_; }
  int builds() const { return builds_; }
  int entries() const { return entries_; }
  std::size_t claims() const { return claims_.size(); }

 private:
  void act(ClaimJob& job, std::function<void()> in_store, std::function<void()> then, int more = 0) {
    const int takes = static_cast<int>(random_() % static_cast<unsigned>(slowest_)) + 1;
    job.happens = std::move(in_store);
    job.happens_at = now_ + takes / 2;
    job.busy_until = now_ + takes + more;
    job.then = std::move(then);
  }

  void look(ClaimJob& job) {
    auto sight = std::make_shared<ClaimSight>();
    act(
        job,
        [this, &job, sight] {
          sight->whole = entries_ > 0;
          for (const auto& [owner, beat] : claims_) {
            if (owner == job.owner)
              sight->has_own = true;
            else
              sight->others.push_back(claim_of(owner, beat, is_dead_on(owner, job.host)));
          }
        },
        [this, &job, sight] { decide(job, *sight); });
  }

  void decide(ClaimJob& job, const ClaimSight& sight) {
    const auto again = [this, &job] { look(job); };
    switch (job.waiting->next(sight, milliseconds(now_))) {
      case ClaimStep::use:
        act(
            job, [this, &job] { claims_.erase(job.owner); }, [&job] { job.state = ClaimJob::State::done; });
        return;
      case ClaimStep::claim:
        return act(
            job, [this, &job] { claims_[job.owner] = 0; }, again);
      case ClaimStep::withdraw:
        return act(
            job, [this, &job] { claims_.erase(job.owner); }, again);
      case ClaimStep::take:
        ++builds_;
        job.state = ClaimJob::State::builds;
        job.built_at = now_ + kBuildMs;
        return beat(job);
      case ClaimStep::give_up:
        job.state = ClaimJob::State::lost;
        return;
      case ClaimStep::wait:
      case ClaimStep::tell:
        job.busy_until = now_ + kLookMs;
        job.then = again;
    }
  }

  void beat(ClaimJob& job) {
    if (job.built_at <= now_) {
      act(
          job,
          [this, &job] {
            ++entries_;
            claims_.erase(job.owner);
          },
          [&job] { job.state = ClaimJob::State::done; });
      return;
    }
    act(
        job, [this, &job] { ++claims_[job.owner]; }, [this, &job] { beat(job); },
        static_cast<int>(kBeatEvery / milliseconds(1)));
  }

  bool is_dead_on(const std::string& owner, int host) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const ClaimJob& job) {
      return job.owner == owner && job.state == ClaimJob::State::dead && job.host == host;
    });
  }

  int slowest_;
  std::mt19937 random_;
  std::deque<ClaimJob> jobs_{};
  std::map<std::string, unsigned> claims_{};
  int entries_ = 0;
  int now_ = 0;
  int builds_ = 0;
};

}  // namespace

TEST_CASE("an entry of a store that is there is used, and one that nobody builds is claimed and built") {
  ClaimWait waiting({}, seconds(5), "m");
  CHECK(waiting.next({}, seconds(5)) == ClaimStep::claim);
  CHECK(waiting.next({false, true, {}}, seconds(5)) == ClaimStep::take);
  CHECK(waiting.next({true, true, {claim_of("a", 1)}}, seconds(6)) == ClaimStep::use);
}

TEST_CASE("of many that claim, the smallest name builds, after a moment without a new one") {
  ClaimWait waiting({}, seconds(0), "m");
  CHECK(waiting.next({false, true, {claim_of("n")}}, milliseconds(0)) == ClaimStep::wait);
  CHECK(waiting.next({false, true, {claim_of("n")}}, milliseconds(1900)) == ClaimStep::wait);
  CHECK(waiting.next({false, true, {claim_of("n"), claim_of("o")}}, milliseconds(2000)) == ClaimStep::wait);
  CHECK(waiting.next({false, true, {claim_of("n"), claim_of("o")}}, milliseconds(4000)) == ClaimStep::take);
  CHECK(waiting.next({false, true, {claim_of("a"), claim_of("o")}}, milliseconds(5000)) == ClaimStep::wait);
  CHECK(waiting.next({false, true, {claim_of("a"), claim_of("o")}}, milliseconds(7000)) == ClaimStep::withdraw);
  CHECK(waiting.next({false, false, {claim_of("a"), claim_of("o")}}, milliseconds(8000)) == ClaimStep::wait);
  CHECK(!waiting.builder());
  CHECK(waiting.lives("a"));
}

TEST_CASE("who claims withdraws for one that builds, and waits") {
  ClaimWait waiting({.most = seconds(100)}, seconds(0), "a");
  CHECK(waiting.next({false, true, {claim_of("n", 1)}}, seconds(0)) == ClaimStep::withdraw);
  CHECK(waiting.next({false, false, {claim_of("n", 1)}}, seconds(1)) == ClaimStep::wait);
  CHECK(waiting.next({false, false, {claim_of("n", 2)}}, seconds(31)) == ClaimStep::tell);
  CHECK(waiting.builder().value().owner == "n");
  // Dead on this machine, or without a beat for a minute: as if it were not there.
  CHECK(waiting.next({false, false, {claim_of("n", 2, true)}}, seconds(32)) == ClaimStep::claim);
  CHECK(waiting.next({false, false, {claim_of("n", 2)}}, seconds(90)) == ClaimStep::tell);
  CHECK(waiting.next({false, true, {claim_of("n", 2)}}, seconds(91)) == ClaimStep::take);
  CHECK(waiting.next({false, false, {claim_of("n", 3)}}, seconds(100)) == ClaimStep::give_up);
  CHECK(waiting.next({}, seconds(100)) == ClaimStep::give_up);
}

TEST_CASE("who may not wait at all still builds in a store") {
  ClaimWait waiting({.most = LeaseTime(0)}, seconds(0), "a");
  CHECK(waiting.next({}, seconds(0)) == ClaimStep::claim);
  CHECK(waiting.next({false, true, {}}, seconds(1)) == ClaimStep::take);
  ClaimWait late({.most = LeaseTime(0)}, seconds(0), "a");
  CHECK(late.next({false, false, {claim_of("n", 1)}}, seconds(0)) == ClaimStep::wait);
  CHECK(late.next({false, false, {claim_of("n", 2)}}, seconds(1)) == ClaimStep::give_up);
}

TEST_CASE("jobs that nothing happens to build once, in a store that answers within a second") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    ClaimWorld world(1 + static_cast<int>(seed % 8), 3, 900, seed);
    CHECK(world.run(120'000) < 60'000);
    CHECK(world.builds() == 1);
    CHECK(world.count(ClaimJob::State::lost) == 0);
    CHECK(world.claims() == 0);
  }
}

TEST_CASE("a store that takes long may be given two entries, and each job has one") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    ClaimWorld world(5, 3, 12'000, seed);
    CHECK(world.run(600'000) < 600'000);
    CHECK(world.count(ClaimJob::State::done) == 5);
    CHECK(world.entries() == world.builds());
    CHECK(world.claims() == 0);
  }
}

TEST_CASE("a builder of a store that is killed at any moment is replaced") {
  for (int at = 0; at < 24'000; at += 800) {
    for (unsigned seed = 0; seed < 6; ++seed) {
      const int hosts = seed % 2 == 0 ? 1 : 8;
      ClaimWorld world(8, hosts, 900, seed);
      while (world.now() < at) world.turn();
      ClaimJob* const killed = world.builder();
      if (killed != nullptr) killed->state = ClaimJob::State::dead;
      CHECK(world.run(300'000) < 60'000 + (hosts == 1 || killed == nullptr ? 0 : 60'000));
      CHECK(world.builds() <= 2);
      CHECK(world.count(ClaimJob::State::done) == (killed != nullptr ? 7 : 8));
      CHECK(world.claims() == (killed != nullptr && world.builds() == 2 ? 1U : 0U));
    }
  }
}

TEST_CASE("a builder of a store that stands still for long harms nobody") {
  for (const int still : {10'000, 50'000, 100'000, 200'000}) {
    for (unsigned seed = 0; seed < 25; ++seed) {
      ClaimWorld world(5, 5, 900, seed);
      while (!world.is_known_to_build()) world.turn();
      world.builder()->busy_until += still;
      world.builder()->happens_at += still;
      world.run(600'000);
      CHECK(world.all_over());
      CHECK(world.count(ClaimJob::State::done) == 5);
      CHECK(world.builds() == (still > 70'000 ? 2 : 1));
    }
  }
}
