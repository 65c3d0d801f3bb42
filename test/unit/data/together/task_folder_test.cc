#include "data/together/task_folder.h"

#include <poll.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/shared/shared_files.h"
#include "dtrain/data_errors.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr TaskTime kShort{300};
constexpr TaskTime kLong{2000};  // no busy machine lets a thread wait for a core that long

// As another process holds it: a lock is that of an open file, so this process does not get it either.
OwnedFd held(const std::string& file, const std::string& name) {
  write_all(file, name);
  auto lock = try_lock(file, Lock::exclusive);
  REQUIRE(lock);
  return std::move(*lock);
}

std::vector<std::string> share(TaskFolder& tasks) {
  std::vector<std::string> all;
  tasks.share(
      "pass-0", 3, 1, [](std::size_t task, const TaskFolder::Touch&) { return "made " + std::to_string(task); },
      [&](std::size_t, std::string_view result) { all.emplace_back(result); });
  return all;
}

TEST_CASE("task folder: a process that holds a task and does not go on is late, and is named") {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder / "pass-0");
  const OwnedFd other = held(folder / "pass-0/00001.lock", "node7 (process 12)");
  TaskFolder tasks(folder.path().string(), Seat{}, kShort);
  std::string why;
  try {
    share(tasks);
  } catch (const DataError& error) {
    why = error.what();
  }
  CHECK(why.find("gone on with 'pass-0'") != std::string::npos);
  CHECK(why.find("part 1 is with node7 (process 12)") != std::string::npos);
  CHECK(tasks.results("pass-0") == 2U);  // those that nobody holds
}

TEST_CASE("task folder: a process that goes on with its task is waited for, and what it leaves is done") {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder / "pass-0");
  const auto began = Clock::now();
  std::thread other([lock = held(folder / "pass-0/00001.lock", "node7"), began]() mutable {
    constexpr int kTouchMs = 10;
    for (; Clock::now() - began < kLong * 5 / 4; ::poll(nullptr, 0, kTouchMs)) ::futimens(lock.get(), nullptr);
    lock = OwnedFd();
  });
  TaskFolder tasks(folder.path().string(), Seat{}, kLong);
  std::vector<std::string> all;
  CHECK_NOTHROW(all = share(tasks));
  other.join();
  CHECK(all == std::vector<std::string>{"made 0", "made 1", "made 2"});
  CHECK(Clock::now() - began > kLong);
}

TEST_CASE("task folder: results of a phase are counted, and one that nobody has begun has none") {
  const test::TempFolder folder;
  TaskFolder tasks(folder.path().string(), Seat{}, kShort);
  CHECK_FALSE(tasks.results("pass-0"));
  share(tasks);
  CHECK(tasks.results("pass-0") == 3U);
  tasks.fail("no such luck");
  CHECK(folder.read("failed") == "no such luck");
  std::filesystem::remove(folder / "pass-0/00000.done");
  CHECK_THROWS_AS(share(tasks), OtherFailed);
}

}  // namespace
}  // namespace dtrain::data
