// Entries that are found, built, waited for and built again, in real folders and by real processes.
#include "data/entry/build_entry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/cache/lease_file.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain::data;
using Catch::Contains;
using dtrain::test::TempFolder;
namespace fs = std::filesystem;

namespace {

const std::string kKey(64, 'a');

struct Bench {
  TempFolder folder{};
  CacheFolder cache{folder.path() / "cache", MakeFolder::yes};
  StopSignals signals{};
  std::vector<std::string> said{};

  EntryWanted wanted(std::function<void(const fs::path&)> more = {}) {
    EntryWanted out;
    out.key = kKey;
    out.recipe = {{"seed", 1}};
    out.build = [this, more = std::move(more)](const fs::path& into) -> RowsOfSplits {
      std::ofstream(folder.path() / "builds", std::ios::app) << "x";
      if (more) more(into);
      fs::create_directories(into / "train");
      std::ofstream(into / "train/part-00000.parquet") << "data";
      return {{"train", 4}};
    };
    out.say = [this](const std::string& line) { said.push_back(line); };
    return out;
  }
  std::size_t builds() const { return folder.read("builds").size(); }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& each : fs::directory_iterator(cache.path())) out.push_back(each.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string why_not(const EntryWanted& asked, int code = kSystemCode) const {
    try {
      find_or_build(cache, asked, signals);
      return "fine";
    } catch (const CacheError& error) {
      CHECK(error.code == code);
      return error.what();
    }
  }
};

using Listed = std::vector<std::string>;
const Listed kOneEntry = {".lock", kKey};

// A process of its own that does it, and its exit code or -signal.
pid_t start_process(const std::function<int()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(work());
  return pid;
}

int end_of(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// A job that is killed when its builder has begun to write.
void kill_in_the_middle(Bench& bench) {
  const std::string fifo = bench.folder / "begun";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const EntryWanted asked = bench.wanted([&](const fs::path& into) {
    std::ofstream(into / "half") << "half";
    std::ofstream(fifo) << "x";
    ::pause();
  });
  const pid_t job = start_process([&] {
    find_or_build(bench.cache, asked, bench.signals);
    return 0;
  });
  std::ifstream(fifo).get();
  ::kill(job, SIGKILL);
  CHECK(end_of(job) == -SIGKILL);
  CHECK(bench.names().size() == 3);  // .lock, the lease and the folder
}

}  // namespace

TEST_CASE("nothing is built where somebody says no before, and nothing is left") {
  Bench bench;
  EntryWanted asked = bench.wanted();
  asked.before_build = [&](const fs::path& folder) {
    std::ofstream(bench.folder / "asked") << fs::is_directory(folder) << folder.parent_path().string();
    throw CacheError(kUsageCode, "");
  };
  CHECK(bench.why_not(asked, kUsageCode).empty());
  CHECK(bench.folder.read("asked") == "1" + bench.cache.path().string());
  CHECK(bench.names() == Listed{".lock"});
  CHECK_FALSE(fs::exists(bench.folder / "builds"));
  asked.before_build = [](const fs::path&) {};
  CHECK(find_or_build(bench.cache, asked, bench.signals).built);
}

TEST_CASE("what a killed build has left outlives a no, and a build that was killed in its question") {
  Bench bench;
  kill_in_the_middle(bench);
  const auto left = bench.cache.leftovers_of(kKey);
  REQUIRE(left.size() == 1);
  fs::create_directory(bench.cache.building(kKey, "asks"));  // the newest
  EntryWanted asked = bench.wanted([](const fs::path& into) {
    if (!fs::remove(into / "half")) throw std::runtime_error("nothing was left");
  });
  asked.resumes = true;
  asked.before_build = [](const fs::path& folder) {
    throw CacheError(kUsageCode, fs::is_empty(folder) ? "no" : "it is not empty");
  };
  CHECK(bench.why_not(asked, kUsageCode) == "no");
  CHECK(fs::exists(left[0] / "half"));
  asked.before_build = [](const fs::path&) {};
  CHECK(find_or_build(bench.cache, asked, bench.signals).built);
  CHECK(bench.names() == kOneEntry);
}

TEST_CASE("an entry is built once and then found") {
  Bench bench;
  const EntryGot built = find_or_build(bench.cache, bench.wanted(), bench.signals);
  CHECK(built.built);
  CHECK(built.folder == bench.cache.path() / kKey);
  CHECK(built.meta.rows.at("train") == 4);
  CHECK(bench.names() == kOneEntry);
  const EntryGot found = find_or_build(bench.cache, bench.wanted(), bench.signals);
  CHECK_FALSE(found.built);
  CHECK(bench.builds() == 1);
  CHECK(found.meta.files.size() == 1);
  CHECK(found.meta.files[0].path == "train/part-00000.parquet");
  CHECK_FALSE(first_difference(found.folder, found.meta));
}

TEST_CASE("many jobs at once build once") {
  Bench bench;
  const EntryWanted asked = bench.wanted();
  constexpr int kJobs = 6;
  std::vector<pid_t> jobs;
  jobs.reserve(kJobs);
  for (int i = 0; i < kJobs; ++i)
    jobs.push_back(start_process([&] { return find_or_build(bench.cache, asked, bench.signals).built ? 1 : 0; }));
  int built = 0;
  for (const pid_t job : jobs) built += end_of(job);
  CHECK(built == 1);
  CHECK(bench.builds() == 1);
  CHECK(bench.names() == kOneEntry);
}

TEST_CASE("what a killed build has left is never taken for whole, and goes") {
  Bench bench;
  kill_in_the_middle(bench);
  CHECK_FALSE(bench.cache.find(kKey).is_there);
  const fs::path seen = bench.folder.path() / "was_empty";
  const auto asked = bench.wanted([&](const fs::path& into) {
    if (fs::is_empty(into)) std::ofstream(seen) << "x";
  });
  CHECK(find_or_build(bench.cache, asked, bench.signals).built);
  CHECK(fs::exists(seen));
  CHECK(bench.names() == kOneEntry);
}

TEST_CASE("a builder that can go on gets what a killed build has left") {
  Bench bench;
  kill_in_the_middle(bench);
  EntryWanted asked = bench.wanted([](const fs::path& into) {
    if (!fs::remove(into / "half")) throw std::runtime_error("nothing was left");
  });
  asked.resumes = true;
  CHECK(bench.why_not(asked) == "fine");
  CHECK(bench.names() == kOneEntry);
}

TEST_CASE("a builder that fails leaves nothing, and its words are the error") {
  Bench bench;
  CHECK(bench.why_not(bench.wanted([](const fs::path&) { throw std::runtime_error("a.csv: row 3 has two columns"); }),
                      kUsageCode) == "a.csv: row 3 has two columns");
  CHECK(bench.names() == Listed{".lock"});
  CHECK_THAT(bench.why_not(bench.wanted([](const fs::path&) { ::raise(SIGKILL); })), Contains("no more memory"));
  CHECK(bench.names() == Listed{".lock"});
  CHECK_THAT(bench.why_not(bench.wanted([](const fs::path&) { throw 42; })), Contains("does not say why"));
  CHECK(bench.names() == Listed{".lock"});
  CHECK_THAT(bench.why_not(bench.wanted([](const fs::path& into) { fs::create_symlink("/etc", into / "etc"); })),
             Contains("files and folders alone"));
  CHECK(bench.names() == Listed{".lock"});
}

TEST_CASE("an input that changes meanwhile gives no entry") {
  Bench bench;
  bench.folder.write("in", "abc");
  EntryWanted asked = bench.wanted([&](const fs::path&) { bench.folder.write("in", "abcd"); });
  asked.inputs = cache_inputs({bench.folder / "in"}, InputsBy::mtime);
  CHECK_THAT(bench.why_not(asked), Contains("in: it has changed while it was read"));
  CHECK(bench.names() == Listed{".lock"});
}

TEST_CASE("a signal ends a build, and nothing is left") {
  Bench bench;
  const EntryWanted asked = bench.wanted([](const fs::path&) {
    ::kill(::getppid(), SIGTERM);
    ::pause();
  });
  const pid_t job = start_process([&] {
    try {
      find_or_build(bench.cache, asked, bench.signals);
    } catch (const Interrupted& interrupted) {
      return interrupted.signal;
    }
    return 0;
  });
  CHECK(end_of(job) == SIGTERM);
  CHECK(bench.names() == Listed{".lock"});
}

TEST_CASE("a cache that is removed in the middle gives no entry that is half") {
  Bench bench;
  const auto asked = bench.wanted([&](const fs::path& into) {
    if (!fs::exists(bench.folder / "again")) fs::remove_all(bench.cache.path());
    bench.folder.write("again", "");
    fs::create_directories(into);
  });
  CHECK(find_or_build(bench.cache, asked, bench.signals).built);
  CHECK(bench.builds() == 2);
  CHECK(bench.said.size() == 1);
  CHECK(bench.names() == kOneEntry);
  fs::remove_all(bench.cache.path());
  CHECK_THAT(bench.why_not(bench.wanted()), Contains("No such file"));
}

TEST_CASE("the error of a build that was replaced is not the job's") {
  Bench bench;
  const auto asked = bench.wanted([&](const fs::path& into) {
    if (bench.builds() > 1) return;
    fs::remove(bench.cache.lease(kKey));
    fs::remove_all(into);
    throw std::runtime_error("no such folder");
  });
  CHECK(bench.why_not(asked) == "fine");
  CHECK(bench.builds() == 2);
  CHECK(bench.names() == kOneEntry);
}

TEST_CASE("what another user has left, and may not be removed, is in nobody's way") {
  Bench bench;
  const fs::path left = bench.cache.building(kKey, "old");
  for (const fs::path& each : {left, bench.cache.entry(kKey)}) {
    fs::create_directory(each);
    std::ofstream(each / "file") << "x";
    fs::permissions(each, fs::perms::owner_read | fs::perms::owner_exec);
  }
  constexpr uid_t kNobody = 65534;
  const bool is_root = ::geteuid() == 0;
  for (const fs::path& each : {bench.folder.path(), bench.cache.path(), left, bench.cache.entry(kKey)})
    if (is_root) REQUIRE(::chown(each.c_str(), kNobody, kNobody) == 0);
  const pid_t job = start_process([&] {
    if (is_root && ::seteuid(kNobody) != 0) return 2;
    return bench.why_not(bench.wanted()) == "fine" ? 0 : 1;
  });
  CHECK(end_of(job) == 0);
  CHECK(bench.cache.find(kKey).damage.empty());
  CHECK(fs::exists(left));
  for (const auto& each : fs::directory_iterator(bench.cache.path()))
    if (each.is_directory()) fs::permissions(each, fs::perms::owner_all);
}

TEST_CASE("who may write in the folder may lock it") {
  Bench bench;
  fs::permissions(bench.cache.path(), fs::perms(0775));
  CHECK(bench.cache.lock());
  CHECK(fs::status(bench.cache.path() / ".lock").permissions() == fs::perms(0664));
}

TEST_CASE("the lock is waited for as long as the caller says, and in its way") {
  Bench bench;
  OwnedFd lock;
  int waits = 0;
  CHECK_THROWS_WITH(([&] {
                      lock = bench.cache.await_lock();
                      bench.cache.await_lock(std::chrono::minutes(10), [&](auto) { ++waits; });
                    }()),
                    Contains("another process has held it for 600 s"));
  CHECK(waits == 30000);
}

TEST_CASE("a damaged entry is built again, and it is said") {
  Bench bench;
  const EntryGot got = find_or_build(bench.cache, bench.wanted(), bench.signals);
  fs::resize_file(got.folder / "train/part-00000.parquet", 3);
  CHECK(find_or_build(bench.cache, bench.wanted(), bench.signals).built);
  REQUIRE(bench.said.size() == 1);
  CHECK_THAT(bench.said[0], Contains("part-00000.parquet has 3 bytes, and should have 4"));
  CHECK(bench.names() == kOneEntry);
}

TEST_CASE("a flipped byte is found by reading all") {
  Bench bench;
  const EntryGot got = find_or_build(bench.cache, bench.wanted(), bench.signals);
  std::ofstream(got.folder / "train/part-00000.parquet") << "dapa";
  CHECK(bench.cache.find(kKey).damage.empty());
  CHECK_THAT(first_difference(got.folder, got.meta).value_or(""), Contains("train/part-00000.parquet is not what"));
  CacheMeta broken;  // a file of the kernel that cannot be read, as on a disk that fails
  broken.files = {{"mem", 0, ""}};
  CHECK_THAT(first_difference("/proc/self", broken).value_or(""), Contains("mem cannot be read (/proc/self/mem: Inp"));
}

TEST_CASE("who waits for a living builder gives up in the end, and names it") {
  Bench bench;
  OwnedFd lock = bench.cache.await_lock();
  const auto held = HeldLease::take(bench.cache.lease(kKey), std::nullopt);
  REQUIRE(held);
  EntryWanted asked = bench.wanted();
  asked.patience = {.tell = LeaseTime(0), .most = LeaseTime(600)};
  CHECK_THAT(bench.why_not(asked, kLateCode), Contains("pid " + std::to_string(::getpid()) + " still builds"));
  CHECK(!bench.said.empty());
  CHECK(bench.builds() == 0);
  lock = OwnedFd();
}

TEST_CASE("a lock that is never given back is waited for no longer than anything else") {
  Bench bench;
  std::ofstream(bench.cache.lease(kKey)) << "no lease";
  const OwnedFd lock = bench.cache.await_lock();
  EntryWanted asked = bench.wanted();
  asked.patience = {.stale = LeaseTime(0), .most = LeaseTime(0)};
  CHECK_THAT(bench.why_not(asked, kLateCode), Contains(".lock: another process holds it"));
}

TEST_CASE("a lease is replaced by one job alone") {
  Bench bench;
  const fs::path file = bench.cache.lease(kKey);
  std::ofstream(file) << "no lease";
  const auto seen = read_lease(file);
  REQUIRE(seen);
  CHECK_FALSE(HeldLease::take(file, std::nullopt));
  auto first = HeldLease::take(file, seen);
  REQUIRE(first);
  CHECK_FALSE(HeldLease::take(file, seen));
  CHECK(first->is_ours());
  CHECK_FALSE(is_dead_here(*read_lease(file)));
  const unsigned beat = read_lease(file)->beat;
  first->beat();
  CHECK(read_lease(file)->beat == beat + 1);
  {
    const OwnedFd lock = bench.cache.await_lock();
    first.reset();
    CHECK(fs::exists(file));  // without the lock it might be the lease of another
  }
  auto second = HeldLease::take(file, read_lease(file));
  REQUIRE(second);
  second.reset();
  CHECK_FALSE(fs::exists(file));
}

TEST_CASE("an entry that a job reads stays") {
  Bench bench;
  const EntryGot got = find_or_build(bench.cache, bench.wanted(), bench.signals);
  {
    const OwnedFd reader(::open((got.folder / "used").c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(::flock(reader.get(), LOCK_SH) == 0);
    CHECK(bench.cache.entries().at(0).held);
    CHECK(bench.cache.remove(kKey, "j") == CacheFolder::Removed::held);
  }
  CHECK_FALSE(bench.cache.entries().at(0).held);
  CHECK(bench.cache.remove(kKey, "j", kJustTaken) == CacheFolder::Removed::held);  // it has been taken just now
  CHECK(bench.cache.remove(kKey, "j") == CacheFolder::Removed::yes);
  CHECK(bench.cache.remove(kKey, "j") == CacheFolder::Removed::no);
  CHECK(bench.names() == Listed{".lock"});
  fs::create_directory(bench.cache.removing(kKey, "j"));
  CHECK(bench.cache.leftovers().at(0).in_use);  // somebody may remove it at the moment
  CHECK(rename_if_there(bench.cache.removing(kKey, "j"), bench.cache.removing(kKey, "k")));
  CHECK_FALSE(rename_if_there(bench.cache.removing(kKey, "j"), bench.cache.removing(kKey, "k")));
}

TEST_CASE("a folder that everybody may write in is no cache, nor is a link an entry") {
  TempFolder folder;
  fs::permissions(folder.path(), fs::perms::all);
  CHECK_THROWS_WITH(CacheFolder(folder.path(), MakeFolder::yes), Contains("everybody may write here"));
  folder.write("file", "");
  CHECK_THROWS_WITH(CacheFolder(folder.path() / "file", MakeFolder::no), Contains("no folder"));
  CHECK_THROWS_WITH(CacheFolder(folder.path() / "none", MakeFolder::no), Contains("there is no cache here"));
  Bench bench;
  fs::create_directory_symlink("/etc", bench.cache.path() / kKey);
  CHECK_THAT(bench.why_not(bench.wanted()), Contains("it is no folder"));
}
