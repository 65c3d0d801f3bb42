// Tested by test/unit/data/entry/build_entry_test.cc.
#include "data/entry/build_entry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <system_error>

#include "data/cache/cache_error.h"
#include "data/cache/cache_inputs.h"
#include "data/cache/lease_file.h"
#include "data/entry/build_child.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;
using SteadyTime = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery{250};
constexpr const char* kEnded = "ended";              // in what a build has left: its writer is known to be dead
constexpr std::chrono::minutes kCommitPatience{10};  // what is built is worth it

LeaseTime now_of_lease() { return std::chrono::duration_cast<LeaseTime>(SteadyTime::now().time_since_epoch()); }

// Of what was built; anything but files and folders is refused.
std::vector<CachedFile> files_of_entry(const fs::path& folder) {
  std::vector<CachedFile> files;
  for (const fs::directory_entry& each : fs::recursive_directory_iterator(folder)) {
    if (each.is_symlink() || (!each.is_regular_file() && !each.is_directory()))
      throw CacheError(kSystemCode, each.path().string() + ": an entry of the cache has files and folders alone");
    if (each.is_directory()) {
      sync_path(each.path());
      continue;
    }
    const CacheInput digest = digest_file(each.path());
    sync_path(each.path());
    files.push_back({each.path().lexically_relative(folder).string(), digest.size, digest.sha256});
  }
  std::sort(files.begin(), files.end(), [](const CachedFile& a, const CachedFile& b) { return a.path < b.path; });
  return files;
}

bool is_own(const fs::path& path) {
  const auto facts = facts_of(path);
  return facts && facts->st_uid == ::geteuid();
}

class EntryBuilder {
 public:
  EntryBuilder(const CacheFolder& cache, const EntryWanted& wanted, const StopSignals& signals, HeldLease& lease)
      : cache_(cache),
        wanted_(wanted),
        signals_(signals),
        lease_(lease),
        folder_(cache.building(wanted.key, lease_.job())) {}

  ~EntryBuilder() {
    // Half of it is not what a build could go on with: another name, under which gc removes what cannot be removed.
    const fs::path aside = cache_.removing(wanted_.key, lease_.job());
    std::error_code error;
    fs::rename(folder_, aside, error);
    fs::remove_all(error ? folder_ : aside, error);
  }
  EntryBuilder(const EntryBuilder&) = delete;
  EntryBuilder& operator=(const EntryBuilder&) = delete;

  // `last_is_dead`: nobody writes any more into what it has left. False: this process stood still for so long that
  // another job has taken the lease, or somebody has removed the cache.
  bool run(bool last_is_dead) {
    clear_damaged();
    try {
      if (wanted_.before_build) {  // in an empty folder: what is left to go on with outlives a no
        if (last_is_dead) mark_leftovers();
        make_folder();
        in_child([this] { wanted_.before_build(folder_); });
      }
      take_leftovers(last_is_dead);
      in_child([this] { fill_entry(folder_, wanted_); });
      commit();
      return true;
    } catch (const LeaseLost&) {
      return false;
    } catch (const CacheError& error) {
      // Who has replaced this build may have removed its folder.
      if (!lease_.is_ours()) return false;
      // Without words the reason was said before.
      if (*error.what() == '\0' || !is_disk_full(error.what(), cache_.path())) throw;
      throw CacheError(kSystemCode, fmt::format("{}: the disk is full; make room, e.g. by `dtrain cache gc`, or choose "
                                                "another cache_dir ({})",
                                                cache_.path().string(), error.what()));
    }
  }

 private:
  struct LeaseLost {};

  void in_child(const std::function<void()>& work) {
    run_in_child(
        work, [this] { beat(); }, signals_);
  }

  void clear_damaged() {
    const CacheFolder::Found found = cache_.find(wanted_.key);
    if (!found.is_there) return;
    wanted_.say(fmt::format("{} is damaged: {}; it is built again", cache_.entry(wanted_.key).string(), found.damage));
    const fs::path aside = cache_.removing(wanted_.key, lease_.job());
    rename_path(cache_.entry(wanted_.key), aside);
    remove_if_allowed(aside);
  }

  // Another user's may stay: it is in nobody's way.
  static void remove_if_allowed(const fs::path& path) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }

  void make_folder() const {
    std::error_code error;
    fs::create_directory(folder_, error);
    if (error) throw_system(folder_, error.value());
  }

  // The newest that has something in it: the lease that says the same is gone after a no.
  void mark_leftovers() const {
    std::vector<fs::path> left = cache_.leftovers_of(wanted_.key);
    const auto is_full = [](const fs::path& each) {
      std::error_code error;
      return fs::is_directory(fs::symlink_status(each, error)) && !fs::is_empty(each, error) && !error;
    };
    const auto newest = std::find_if(left.rbegin(), left.rend(), is_full);
    if (newest != left.rend() && is_own(*newest)) write_new_file(*newest / kEnded, "");
  }

  // It removes no folder with anything in it.
  static bool is_removed_as_empty(const fs::path& path) {
    std::error_code ignored;
    return fs::remove(path, ignored);
  }

  // This job has the lease, so nobody else's build counts.
  void take_leftovers(bool may_go_on) {
    std::vector<fs::path> left = cache_.leftovers_of(wanted_.key);
    std::erase_if(left, is_removed_as_empty);  // the one of the question, and of a build that was killed in its own
    // The mark goes before anybody writes.
    std::error_code ignored;
    const bool is_own_one = !left.empty() && is_own(left.back());
    const bool is_marked = is_own_one && fs::remove(left.back() / kEnded, ignored);
    if ((may_go_on || is_marked) && wanted_.resumes && is_own_one && rename_if_there(left.back(), folder_)) {
      left.pop_back();
      for (const char* name : {"meta.json", "used"}) remove_tree(folder_ / name);
    }
    for (const fs::path& each : left) remove_if_allowed(each);
    make_folder();
  }

  void beat() {
    if (!lease_.is_ours()) throw LeaseLost();
    lease_.beat();
  }

  void commit() {
    std::chrono::milliseconds since_beat{};
    const OwnedFd lock = cache_.await_lock(kCommitPatience, [&](std::chrono::milliseconds most) {
      signals_.wait(most);
      since_beat += most;
      if (since_beat < kBeatEvery) return;
      beat();
      since_beat = {};
    });
    if (!lease_.is_ours()) throw LeaseLost();
    rename_path(folder_, cache_.entry(wanted_.key));
    sync_path(cache_.path());
    lease_.give_back();
  }

  const CacheFolder& cache_;
  const EntryWanted& wanted_;
  const StopSignals& signals_;
  HeldLease& lease_;
  fs::path folder_;
};

std::string why_late(const CacheFolder& cache, const LeaseSight& sight, bool was_locked_out,
                     const LeasePatience& patience) {
  if (was_locked_out)
    return fmt::format(
        "{}/.lock: another process holds it, and so the data set could not be built within {} s; end "
        "that process first",
        cache.path().string(), std::chrono::duration_cast<std::chrono::seconds>(patience.most).count());
  return has_waited(sight.lease, patience.most);
}

bool is_whole(const CacheFolder::Found& found) { return found.is_there && found.damage.empty(); }

}  // namespace

void fill_entry(const fs::path& folder, const EntryWanted& wanted) {
  const auto began = SteadyTime::now();
  CacheMeta meta;
  meta.rows = wanted.build(folder);
  check_unchanged(wanted.inputs);
  meta.key = wanted.key;
  meta.recipe = canonical_recipe(wanted.recipe);
  meta.inputs = wanted.inputs;
  meta.files = files_of_entry(folder);
  meta.made = std::time(nullptr);
  meta.seconds = std::chrono::duration<double>(SteadyTime::now() - began).count();
  write_new_file(folder / "used", "");
  write_new_file(folder / "meta.json", meta_text(meta));
  sync_path(folder);
}

EntryGot find_or_build(const CacheFolder& cache, const EntryWanted& wanted, const StopSignals& signals) {
  LeaseWait waiting(wanted.patience, now_of_lease());
  for (bool built = false, was_locked_out = false;;) {
    CacheFolder::Found found = cache.find(wanted.key);
    LeaseSight sight;
    sight.whole = is_whole(found);
    if (!sight.whole) sight.lease = read_lease(cache.lease(wanted.key));
    sight.builder_is_dead = sight.lease && is_dead_here(*sight.lease);
    std::unique_ptr<HeldLease> lease;
    OwnedFd lock;
    switch (waiting.next(sight, now_of_lease())) {
      case LeaseStep::use:
        cache.touch(wanted.key);
        return {cache.entry(wanted.key), std::move(*found.meta), built};
      case LeaseStep::take:
      case LeaseStep::replace:
        lock = cache.lock();
        was_locked_out = !lock;
        if (lock) lease = HeldLease::take(cache.lease(wanted.key), sight.lease);
        lock = OwnedFd();
        break;
      case LeaseStep::wait:
        was_locked_out = false;
        break;
      case LeaseStep::tell:
        was_locked_out = false;
        wanted.say(waits_for(*sight.lease));
        break;
      case LeaseStep::give_up:
        throw CacheError(kLateCode, why_late(cache, sight, was_locked_out, wanted.patience));
    }
    if (!lease) {
      signals.wait(kLookEvery);
    } else if (!is_whole(cache.find(wanted.key))) {  // else another job has built it since the look
      built = EntryBuilder(cache, wanted, signals, *lease).run(sight.builder_is_dead);
      if (!built) wanted.say("the lease of this build is gone, so it is looked for again");
    }
  }
}

}  // namespace dtrain::data
