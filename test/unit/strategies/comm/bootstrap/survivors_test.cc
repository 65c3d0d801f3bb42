// Ranks that agree on who goes on: each rank is a thread, and the store is a map.
#include "strategies/comm/bootstrap/survivors.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

constexpr std::chrono::seconds kLimit{20};

class Board final : public MemberStore {
 public:
  void put(const std::string& key, const std::string& value) override {
    change([&] { values_[key] = value; });
  }
  std::string take(const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [&] { return values_.contains(key); }))
      throw std::runtime_error("nothing came");
    return values_.at(key);
  }
  std::string first(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    return values_.try_emplace(key, value).first->second;
  }
  bool has(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.contains(key);
  }
  void append(const std::string& key, const std::string& text) override {
    change([&] { values_[key] += text; });
  }
  void await_joiners(std::ptrdiff_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kLimit, [&] {
      const auto lines = values_.find("reform/joiners");
      return lines != values_.end() && std::count(lines->second.begin(), lines->second.end(), '\n') == count;
    }));
  }

 private:
  void change(const std::function<void()>& write) {
    {
      const std::lock_guard lock(mutex_);
      write();
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

Member rank(int number, int incarnation = 0) {
  return {fmt::format("{}.{}", number, incarnation), number / 2, number % 2};
}

std::string names(const SurvivorWorld& world) {
  std::string text = fmt::format("{}:", world.generation);
  for (const Member& member : world.members) text += " " + member.name;
  return text;
}

// What each says when all meet at once: its rank and its world, or the error.
std::vector<std::string> meet(const std::vector<Survivors*>& all, std::chrono::milliseconds limit = kLimit) {
  std::vector<std::string> said(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        const SurvivorWorld& world = all[i]->meet(std::chrono::steady_clock::now() + limit);
        said[i] = fmt::format("{} in {}", all[i]->rank(), names(world));
      } catch (const std::exception& error) {
        said[i] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return said;
}

using Said = std::vector<std::string>;

}  // namespace

TEST_CASE("survivors go on in their old order, and processes in the places of others follow") {
  Board board;
  Survivors zero(board, rank(0), 3), one(board, rank(1), 3), two(board, rank(2), 3), again(board, rank(0, 1), 3);
  CHECK(meet({&two, &zero, &one}) == Said{"2 in 0: 0.0 1.0 2.0", "0 in 0: 0.0 1.0 2.0", "1 in 0: 0.0 1.0 2.0"});
  CHECK(one.world().local_ranks(0) == std::vector{0, 1});
  CHECK(one.world().local_ranks(1) == std::vector{0});
  CHECK_FALSE(one.somebody_ended());
  board.put("gone/0.0", "1");
  CHECK(one.somebody_ended());
  CHECK(meet({&one, &two}) == Said{"0 in 1: 1.0 2.0", "1 in 1: 1.0 2.0"});
  CHECK_FALSE(one.joiners_wait());
  std::thread joins([&] { again.meet(std::chrono::steady_clock::now() + kLimit); });
  board.await_joiners(1);
  CHECK(one.joiners_wait());
  CHECK(meet({&two, &one}) == Said{"1 in 2: 1.0 2.0 0.1", "0 in 2: 1.0 2.0 0.1"});
  joins.join();
  CHECK(again.rank() == 2);
  CHECK_FALSE(one.joiners_wait());
  board.put("gone/1.0", "1");
  CHECK(meet({&two, &again}) == Said{"0 in 3: 2.0 0.1", "1 in 3: 2.0 0.1"});
}

TEST_CASE("a rank that never began, and its successor, which ended too, keep nobody waiting") {
  Board board;
  Survivors zero(board, rank(0), 2), early(board, rank(1, 1), 2), late(board, rank(1, 2), 2);
  board.put("gone/1.0", "1");
  std::thread joins([&] { CHECK_THROWS(early.meet(std::chrono::steady_clock::now() + std::chrono::milliseconds{1})); });
  joins.join();
  board.put("gone/1.1", "1");
  std::thread next([&] { late.meet(std::chrono::steady_clock::now() + kLimit); });
  board.await_joiners(2);
  CHECK(meet({&zero}) == Said{"0 in 0: 0.0 1.2"});
  next.join();
  CHECK(late.rank() == 1);
}

TEST_CASE("a meeting that cannot end says who is missing") {
  Board board;
  Survivors zero(board, rank(0), 2), joiner(board, rank(1, 1), 2);
  CHECK(meet({&zero}, std::chrono::milliseconds{50}) ==
        Said{"rank 1 did not come to form the group anew, and the launcher does not say that it has ended"});
  CHECK(meet({&joiner}, std::chrono::milliseconds{50}) ==
        Said{"the other ranks did not form the group anew (reform())"});
}

TEST_CASE("a process that takes a place when the others have come to their end says so") {
  Board board;
  Survivors zero(board, rank(0), 2), one(board, rank(1), 2), late(board, rank(1, 1), 2);
  meet({&zero, &one});
  board.put("gone/1.0", "failed");
  board.put("gone/0.0", "well");
  CHECK(meet({&late}) == Said{"the other ranks have come to their end"});
}

TEST_CASE("a process that asks to join again is in the world once") {
  Board board;
  Survivors zero(board, rank(0), 2), one(board, rank(1), 2), next(board, rank(1, 1), 2);
  meet({&zero, &one});
  board.put("gone/1.0", "failed");
  for (int i = 0; i < 2; ++i)
    CHECK(meet({&next}, std::chrono::milliseconds{20}) ==
          Said{"the other ranks did not form the group anew (reform())"});
  Survivors twin(board, rank(1, 1), 2);
  CHECK_THAT(meet({&twin}, std::chrono::milliseconds{1})[0], Catch::Contains("did not form"));
  CHECK(meet({&zero}) == Said{"0 in 1: 0.0 1.1"});
}

TEST_CASE("of processes that took places when all had failed, none is left out") {
  Board board;
  Survivors zero(board, rank(0), 2), one(board, rank(1), 2), first(board, rank(0, 1), 2), second(board, rank(1, 1), 2);
  meet({&zero, &one});
  board.put("gone/0.0", "failed");
  board.put("gone/1.0", "failed");
  meet({&first});
  board.put("reform/latest", R"({"generation":0,"members":[{"name":"0.0","node":0,"local_rank":0}],"joiners":0})");
  std::thread joins([&] { second.meet(std::chrono::steady_clock::now() + kLimit); });
  board.await_joiners(2);
  CHECK(meet({&first}) == Said{"0 in 2: 0.1 1.1"});
  joins.join();
  CHECK(second.rank() == 1);
}

TEST_CASE("where nobody is left, those that took places are the world") {
  Board board;
  Survivors zero(board, rank(0), 2), one(board, rank(1), 2), next(board, rank(0, 1), 2), other(board, rank(1, 1), 2);
  meet({&zero, &one});
  board.put("gone/0.0", "1");
  board.put("gone/1.0", "1");
  CHECK(meet({&next}) == Said{"0 in 1: 0.1"});
  std::thread joins([&] { other.meet(std::chrono::steady_clock::now() + kLimit); });
  board.await_joiners(2);
  CHECK(meet({&next}) == Said{"0 in 2: 0.1 1.1"});
  joins.join();
  CHECK(other.rank() == 1);
}

TEST_CASE("whoever dies when, the ranks that live agree on one world") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const int ranks = 2 + static_cast<int>(random() % 5);
    Board board;
    std::vector<std::unique_ptr<Survivors>> all;
    for (int i = 0; i < ranks; ++i) all.push_back(std::make_unique<Survivors>(board, rank(i), ranks));
    std::vector<Survivors*> live;
    for (const auto& each : all) live.push_back(each.get());
    for (int round = 0; live.size() > 1; ++round) {
      std::shuffle(live.begin(), live.end(), random);
      // Some die before they come. One comes and dies: it may be in the world, and not in the next one.
      const std::size_t dead = round == 0 ? 0 : 1 + random() % (live.size() - 1);
      const bool came = round > 0 && random() % 2 == 0;
      std::vector<Survivors*> lost(live.end() - static_cast<std::ptrdiff_t>(dead), live.end());
      live.resize(live.size() - dead);
      std::vector<Survivors*> coming = live;
      if (came) coming.push_back(lost.front());
      Said gone;
      for (const Survivors* each : lost)
        gone.push_back("gone/" + each->world().members[static_cast<std::size_t>(each->rank())].name);
      std::thread launcher([&] {
        for (const std::string& key : gone) board.put(key, "1");
      });
      meet(coming);
      launcher.join();
      const std::string world = names(live.front()->world());
      for (const Survivors* each : live) {
        CHECK(names(each->world()) == world);
        CHECK(each->rank() >= 0);
      }
      CHECK(live.front()->world().members.size() <= coming.size());
      CHECK(live.front()->world().members.size() >= live.size());
    }
  }
}
