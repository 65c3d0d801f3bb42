#include "launcher/base/folders.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

std::string make(const std::string& path) {
  fs::create_directories(path);
  return path;
}

// As a new job does with what dead jobs have left.
void sweep(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (const UniqueFd taken = take_left_folder(it->path())) ::rmdir(it->path().c_str());
  }
}

// A thread that sweeps a folder again and again.
class Sweeper {
 public:
  explicit Sweeper(const std::string& folder)
      : thread_([this, folder] {
          while (!ends_) {
            sweep(folder);
            ++sweeps_;
            sweeps_.notify_all();
          }
        }) {}
  ~Sweeper() {
    ends_ = true;
    thread_.join();
  }

  // Until a sweep that began after this call has ended.
  void wait_for_a_sweep() const {
    const int wanted = sweeps_ + 2;
    for (int now = sweeps_; now < wanted; now = sweeps_) sweeps_.wait(now);
  }

 private:
  std::atomic<bool> ends_{false};
  std::atomic<int> sweeps_{0};
  std::thread thread_;
};

}  // namespace

TEST_CASE("a folder is held for as long as somebody has it open") {
  test::TempFolder folder;
  const std::string path = make(folder / "x");
  CHECK(take_left_folder(path));
  UniqueFd held = hold_folder(path);
  REQUIRE(held);
  CHECK_FALSE(take_left_folder(path));
  CHECK(hold_folder(path));  // by several
  held.reset();
  CHECK(take_left_folder(path));
}

TEST_CASE("what cannot be told counts as held, and what is gone cannot be held") {
  test::TempFolder folder;
  CHECK_FALSE(take_left_folder(folder / "nothing"));
  CHECK_FALSE(hold_folder(folder / "nothing"));
}

TEST_CASE("a folder is made under a name that is free") {
  test::TempFolder folder;
  std::string path = folder / "x", again = path, nowhere = folder / "nothing/x";
  const UniqueFd first = make_held_folder(path, 0700), second = make_held_folder(again, 0700);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(path == folder / "x");
  CHECK(again == folder / "x.1");
  CHECK_FALSE(take_left_folder(again));
  CHECK_FALSE(make_held_folder(nowhere, 0700));
  CHECK(errno == ENOENT);
}

TEST_CASE("a folder that cannot be held, as there are no descriptors, does not stay") {
  const test::TempFolder folder;
  std::string path = folder / "job";
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool held(make_held_folder(path, 0700));
  const int error = errno;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK_FALSE(held);
  CHECK(error == EMFILE);
  CHECK(fs::is_empty(folder / ""));
}

// Jobs that start at the same time want the same name, and each removes what it takes for a leftover.
TEST_CASE("no job loses the folder that it holds to another one that starts") {
  constexpr int kJobs = 3, kStarts = 100;
  test::TempFolder folder;
  const std::string root = make(folder / "root");
  std::atomic<int> not_made{0}, lost{0};
  {
    const Sweeper sweeper(root);
    const auto start_jobs = [&] {
      for (int i = 0; i < kStarts; ++i) {
        std::string path = root + "/job";
        const UniqueFd held = make_held_folder(path, 0700);
        if (!held) ++not_made;
        sweeper.wait_for_a_sweep();
        struct stat named {
        }, open{};
        const bool is_there = ::stat(path.c_str(), &named) == 0 && ::fstat(held.get(), &open) == 0;
        if (held && (!is_there || named.st_ino != open.st_ino)) ++lost;
      }
    };
    std::vector<std::thread> jobs;
    for (int i = 0; i < kJobs; ++i) jobs.emplace_back(start_jobs);
    for (std::thread& job : jobs) job.join();
  }
  CHECK(not_made == 0);
  CHECK(lost == 0);
  sweep(root);
  CHECK(fs::is_empty(root));  // and what nobody holds goes
}

}  // namespace dtrain::launcher
