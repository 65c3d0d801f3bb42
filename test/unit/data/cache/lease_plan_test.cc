// N jobs want one entry: alone, beside others, and with builders that die or stand still at any moment.
#include "data/cache/lease_plan.h"

#include <algorithm>
#include <random>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain::data;
using std::chrono::seconds;

namespace {

Lease lease_of(const std::string& owner, unsigned beat = 0) {
  Lease lease;
  lease.owner = owner;
  lease.beat = beat;
  return lease;
}

LeaseSight built_by(const std::string& owner, unsigned beat) { return {false, lease_of(owner, beat), false}; }

constexpr int kBuildSeconds = 20;

struct SimJob {
  enum class State { looks, builds, done, lost, dead } state = State::looks;
  int host = 0;
  int left = kBuildSeconds;
  int stands_still_until = 0;
  std::string owner{};
  LeaseWait waiting{{}, LeaseTime(0)};
};

// A second of the world is a turn of each job, in any order. What the folder's lock makes one step is one step here.
class SimCache {
 public:
  SimCache(int jobs, int hosts, unsigned seed) : random_(seed) {
    for (int i = 0; i < jobs; ++i) {
      jobs_.emplace_back();
      jobs_.back().host = i % hosts;
    }
  }

  void turn() {
    std::vector<std::size_t> order(jobs_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t i : order)
      if (jobs_[i].stands_still_until <= now_) step(jobs_[i]);
    ++now_;
  }

  void kill_builder() {
    if (SimJob* job = builder()) job->state = SimJob::State::dead;
  }
  void stop_builder(int until) {
    if (SimJob* job = builder()) job->stands_still_until = now_ + until;
  }
  bool is_over() const {
    return std::all_of(jobs_.begin(), jobs_.end(), [](const SimJob& job) {
      return job.state != SimJob::State::looks && job.state != SimJob::State::builds;
    });
  }
  int count(SimJob::State state) const {
    return static_cast<int>(
        std::count_if(jobs_.begin(), jobs_.end(), [&](const SimJob& job) { return job.state == state; }));
  }
  int builds() const { return builds_; }
  bool has_lease() const { return lease_.has_value(); }

 private:
  SimJob* builder() {
    const auto found =
        std::find_if(jobs_.begin(), jobs_.end(), [](const SimJob& job) { return job.state == SimJob::State::builds; });
    return found == jobs_.end() ? nullptr : &*found;
  }

  bool is_dead_on(int host) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const SimJob& job) {
      return job.owner == lease_->owner && job.state == SimJob::State::dead && job.host == host;
    });
  }

  void step(SimJob& job) {
    if (job.state == SimJob::State::builds) return build(job);
    if (job.state != SimJob::State::looks) return;
    const LeaseSight sight{entry_, entry_ ? std::nullopt : lease_, lease_ && is_dead_on(job.host)};
    switch (job.waiting.next(sight, seconds(now_))) {
      case LeaseStep::use:
        job.state = SimJob::State::done;
        break;
      case LeaseStep::take:
      case LeaseStep::replace:
        job.owner = std::to_string(++builds_);
        lease_ = lease_of(job.owner);
        job.state = SimJob::State::builds;
        break;
      case LeaseStep::give_up:
        job.state = SimJob::State::lost;
        break;
      case LeaseStep::wait:
      case LeaseStep::tell:
        break;
    }
  }

  void build(SimJob& job) {
    const bool is_ours = lease_ && lease_->owner == job.owner;
    if (!is_ours) {
      job.state = SimJob::State::lost;
      return;
    }
    if (seconds(now_) % kBeatEvery == LeaseTime(0)) ++lease_->beat;
    if (--job.left > 0) return;
    entry_ = true;
    lease_.reset();
    job.state = SimJob::State::done;
  }

  std::mt19937 random_;
  std::vector<SimJob> jobs_{};
  std::optional<Lease> lease_{};
  bool entry_ = false;
  int now_ = 0;
  int builds_ = 0;
};

int turns_to_end(SimCache& cache) {
  int turns = 0;
  for (; !cache.is_over() && turns < 5000; ++turns) cache.turn();
  return turns;
}

}  // namespace

TEST_CASE("a lease is read as it was written, and has the same length for each beat") {
  Lease lease{"0a", "ann", "node1", "b-1", "pid:[4]", 12, "345", 7};
  const auto read = parse_lease(lease_text(lease));
  REQUIRE(read);
  CHECK(lease_text(*read) == lease_text(lease));
  CHECK(builder_name(*read) == "ann on node1, pid 12");
  const std::size_t size = lease_text(lease).size();
  lease.beat = 4'000'000'000U;
  CHECK(lease_text(lease).size() == size);
  CHECK_FALSE(parse_lease(""));
  CHECK_FALSE(parse_lease("{}"));
  CHECK_FALSE(parse_lease(lease_text(lease).substr(1)));
}

TEST_CASE("what is there is used, and what nobody builds is built") {
  LeaseWait waiting({}, seconds(5));
  CHECK(waiting.next({}, seconds(5)) == LeaseStep::take);
  CHECK(waiting.next({true, std::nullopt, false}, seconds(6)) == LeaseStep::use);
  CHECK(waiting.next({true, lease_of("a"), true}, seconds(9999)) == LeaseStep::use);
}

TEST_CASE("a builder whose beat stands still is replaced after a minute, a dead one at once") {
  LeaseWait waiting({}, seconds(0));
  CHECK(waiting.next(built_by("a", 1), seconds(0)) == LeaseStep::wait);
  CHECK(waiting.next(built_by("a", 2), seconds(59)) == LeaseStep::tell);
  CHECK(waiting.next(built_by("a", 2), seconds(118)) == LeaseStep::tell);
  CHECK(waiting.next(built_by("a", 2), seconds(119)) == LeaseStep::replace);
  CHECK(waiting.next(built_by("b", 2), seconds(119)) == LeaseStep::wait);  // another was faster
  CHECK(waiting.next({false, lease_of("b", 2), true}, seconds(120)) == LeaseStep::replace);
}

TEST_CASE("who waits says so every half minute, and gives up in the end") {
  LeaseWait waiting({.most = seconds(100)}, seconds(0));
  int told = 0;
  for (int now = 0; now < 100; ++now) {
    const LeaseStep step = waiting.next(built_by("a", static_cast<unsigned>(now)), seconds(now));
    CHECK((step == LeaseStep::wait || step == LeaseStep::tell));
    if (step == LeaseStep::tell) ++told;
  }
  CHECK(told == 3);
  CHECK(waiting.next(built_by("a", 100), seconds(100)) == LeaseStep::give_up);
  CHECK(waiting.next({}, seconds(100)) == LeaseStep::give_up);
  CHECK(waiting.next({false, lease_of("a", 100), true}, seconds(100)) == LeaseStep::give_up);
  CHECK(waiting.next(built_by("a", 100), seconds(200)) == LeaseStep::give_up);
}

TEST_CASE("who may not wait at all still looks once") {
  const auto first = [](const LeaseSight& sight) {
    return LeaseWait({.most = LeaseTime(0)}, seconds(5)).next(sight, seconds(6));
  };
  CHECK(first({}) == LeaseStep::take);
  CHECK(first({true, std::nullopt, false}) == LeaseStep::use);
  CHECK(first({false, lease_of("a"), true}) == LeaseStep::replace);
  LeaseWait waiting({.most = LeaseTime(0)}, seconds(5));
  CHECK(waiting.next(built_by("a", 1), seconds(5)) == LeaseStep::wait);
  CHECK(waiting.next(built_by("a", 1), seconds(5)) == LeaseStep::give_up);
}

TEST_CASE("jobs that nothing happens to build once") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SimCache cache(1 + static_cast<int>(seed % 8), 3, seed);
    CHECK(turns_to_end(cache) <= kBuildSeconds + 3);
    CHECK(cache.builds() == 1);
    CHECK(cache.count(SimJob::State::lost) == 0);
    CHECK_FALSE(cache.has_lease());
  }
}

TEST_CASE("a builder that is killed at any moment is replaced") {
  for (int at = 0; at <= kBuildSeconds; ++at) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const int hosts = seed % 2 == 0 ? 1 : 8;
      SimCache cache(8, hosts, seed);
      for (int turn = 0; turn < at; ++turn) cache.turn();
      cache.kill_builder();
      const int turns = turns_to_end(cache);
      // On one host the kernel tells at once; elsewhere the beat has to stand still for a minute.
      CHECK(at + turns <= at + kBuildSeconds + 3 + (hosts == 1 ? 0 : 60));
      CHECK(cache.builds() <= 2);
      CHECK(cache.count(SimJob::State::done) >= 7);
      CHECK_FALSE(cache.has_lease());
    }
  }
}

TEST_CASE("each builder is killed once") {
  SimCache cache(8, 4, 1);
  for (int i = 0; i < 7; ++i) {
    for (int turn = 0; turn < 70; ++turn) {
      cache.turn();
      if (turn == 69) cache.kill_builder();
      if (turn == 3) cache.kill_builder();
    }
  }
  turns_to_end(cache);
  CHECK(cache.is_over());
  CHECK(cache.count(SimJob::State::dead) + cache.count(SimJob::State::done) == 8);
}

TEST_CASE("a builder that stands still for long and comes back harms nobody") {
  for (const int still : {10, 50, 61, 75, 200}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      SimCache cache(5, 5, seed);
      for (int turn = 0; turn < 6; ++turn) cache.turn();
      cache.stop_builder(still);
      turns_to_end(cache);
      CHECK(cache.is_over());
      CHECK(cache.builds() == (still > 60 ? 2 : 1));
      CHECK(cache.count(SimJob::State::lost) == (still > 60 ? 1 : 0));
      CHECK_FALSE(cache.has_lease());
    }
  }
}
