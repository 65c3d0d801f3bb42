#include "cli/program/build_lock.h"

#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

using namespace std::chrono_literals;

BuildLock left_lock() {
  BuildLock lock;
  lock.path = "/home/ann/.cache/torch_extensions/py311_cpu/fused_adam/lock";
  lock.python = "py311_cpu";
  lock.age = 3h;
  lock.quiet = 3h;
  lock.all_seen = true;
  return lock;
}

PythonFacts python(const std::string& version) {
  PythonFacts facts;
  facts.version = version;
  facts.torch_file = "/venv/torch/__init__.py";
  return facts;
}

const std::string kWaits = "    baton = FileBaton(os.path.join(build_directory, 'lock'))\n";
const std::string kNewer = "    with FileLock(os.path.join(build_directory, 'lock')):\n";

std::string folder_of(const std::map<std::string, std::string>& env) {
  const auto folders = extension_folders(env);
  return folders ? folders->path + (folders->by_python ? "/*" : "") : "none";
}

}  // namespace

TEST_CASE("build locks: the folders are those of torch") {
  CHECK(folder_of({{"TORCH_EXTENSIONS_DIR", "/ext"}, {"XDG_CACHE_HOME", "/cache"}, {"HOME", "/home/ann"}}) == "/ext");
  CHECK(folder_of({{"XDG_CACHE_HOME", "/cache"}, {"HOME", "/home/ann"}}) == "/cache/torch_extensions/*");
  CHECK(folder_of({{"HOME", "/home/ann"}}) == "/home/ann/.cache/torch_extensions/*");
  CHECK(folder_of({}) == "none");
  CHECK(folder_of({{"TORCH_EXTENSIONS_DIR", ""}}) == ".");
  CHECK(folder_of({{"XDG_CACHE_HOME", ""}}) == "./torch_extensions/*");
}

TEST_CASE("build locks: a FileBaton's may be executed, and a lock that the kernel holds may not") {
  CHECK(is_batons(0100755));
  CHECK(is_batons(0100700));  // umask 077
  CHECK_FALSE(is_batons(0100644));
  CHECK_FALSE(is_batons(0100666));
}

TEST_CASE("build locks: one is left if its builder is nowhere, or may be elsewhere and does nothing for long") {
  BuildLock lock = left_lock();
  CHECK(is_left(lock));
  SECTION("a process that would be seen is not needed for long") {
    lock.age = lock.quiet = 1s;
    CHECK(is_left(lock));
  }
  SECTION("a builder is there, however old the lock is") {
    lock.held = true;
    CHECK_FALSE(is_left(lock));
    lock.all_seen = false;
    CHECK_FALSE(is_left(lock));
  }
  SECTION("a builder may be elsewhere") {
    lock.all_seen = false;
    CHECK(is_left(lock));
    lock.quiet = 30min;
    CHECK(is_left(lock));
    lock.quiet = 30min - 1s;  // whatever the age: it has compiled something
    CHECK_FALSE(is_left(lock));
    lock.quiet = -1h;  // its host's clock is fast
    CHECK_FALSE(is_left(lock));
  }
}

TEST_CASE("build locks: the workers' torch has to be one that waits, of the same Python") {
  BuildLock lock = left_lock();
  CHECK(is_waited_for(lock, python("3.11.2"), kWaits));
  CHECK_FALSE(is_waited_for(lock, python("3.11.2"), kNewer));
  CHECK_FALSE(is_waited_for(lock, python("3.12.1"), kWaits));
  CHECK_FALSE(is_waited_for(lock, python("3.1.4"), kWaits));
  lock.python = "py313t_cu126";
  CHECK(is_waited_for(lock, python("3.13.0"), kWaits));
  lock.python = "";  // TORCH_EXTENSIONS_DIR is for all
  CHECK(is_waited_for(lock, python("3.12.1"), kWaits));
  CHECK_FALSE(is_waited_for(lock, python("3.12.1"), kNewer));
}

TEST_CASE("build locks: where no torch can be asked, a worker's may wait") {
  CHECK(is_waited_for(left_lock(), PythonFacts{}, ""));
  CHECK(is_waited_for(left_lock(), python("3.11.2"), ""));
  PythonFacts without = python("3.12.1");
  without.torch_file.clear();
  CHECK(is_waited_for(left_lock(), without, ""));
}

TEST_CASE("build locks: the words name the file, the extension and the command") {
  BuildLock lock = left_lock();
  CHECK(lock_found(lock) == lock.path + " is 3 h 0 min old, and no process builds there");
  CHECK(lock_cure(lock) ==
        "a build that was killed has left it, and workers that need fused_adam wait for it for ever; remove it: rm " +
            lock.path);
  lock.all_seen = false;
  lock.quiet = 31min;
  CHECK(lock_found(lock) == lock.path + " is 3 h 0 min old, and nothing has changed there for 31 min 0 s");
  lock.path = "/my cache/a b/lock";
  CHECK(lock_cure(lock).ends_with("workers that need a b wait for it for ever; remove it: rm '/my cache/a b/lock'"));
}

}  // namespace dtrain::cli
