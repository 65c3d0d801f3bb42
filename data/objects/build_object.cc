// Tested by test/unit/data/objects/build_object_test.cc.
#include "data/objects/build_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "data/cache/cache_error.h"
#include "data/cache/lease_file.h"
#include "data/entry/build_child.h"
#include "data/objects/claim_plan.h"
#include "data/objects/object_cache.h"
#include "data/objects/scratch_folder.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;
using BuildClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStoreLookEvery{1000};

LeaseTime now_of_claim() { return std::chrono::duration_cast<LeaseTime>(BuildClock::now().time_since_epoch()); }

struct ClaimLost {};

// This job's folder in the store. It goes with this, unless the build was committed.
class OwnBuild {
 public:
  OwnBuild(ObjectStore& store, const std::string& key)
      : store_(store), claim_(own_lease()), folder_(build_name(key, claim_.owner)) {}
  ~OwnBuild() {
    try {
      withdraw();
    } catch (const CacheError&) {  // the store cannot be reached: gc removes it later
      return;
    }
  }
  OwnBuild(const OwnBuild&) = delete;
  OwnBuild& operator=(const OwnBuild&) = delete;

  const std::string& owner() const { return claim_.owner; }
  std::string name(const std::string& file) const { return folder_ + "/" + file; }
  const std::string& folder() const { return folder_; }

  bool is_there() const { return is_there_; }
  void write_claim() {
    is_there_ = true;
    store_.write(name("claim"), lease_text(claim_));
  }
  void withdraw() {
    if (std::exchange(is_there_, false)) store_.remove_folder(folder_);
  }
  // From the first beat on it builds. Throws ClaimLost: another job has taken this one for dead.
  void beat() {
    if (!store_.read(name("claim"))) throw ClaimLost();
    ++claim_.beat;
    beaten_ = now_of_claim();
    write_claim();
  }
  // A store that cannot be reached for a moment ends no build; the upload says it.
  void beat_if_it_can() {
    try {
      beat();
    } catch (const CacheError&) {
      return;
    }
  }
  bool is_beat_due() const { return now_of_claim() - beaten_ >= kBeatEvery; }
  void commit(const CacheMeta& meta) {
    store_.write(name("meta.json"), meta_text(meta));
    is_there_ = false;
  }

 private:
  ObjectStore& store_;
  Lease claim_;
  std::string folder_;
  LeaseTime beaten_{};
  bool is_there_ = false;
};

class ObjectBuilder {
 public:
  ObjectBuilder(ObjectStore& store, const EntryWanted& wanted, const StopSignals& signals, OwnBuild& own)
      : store_(store), wanted_(wanted), signals_(signals), own_(own) {}

  void run(const FillFolder& fill) {
    own_.beat();
    const ScratchFolder scratch;
    const fs::path folder = scratch.path() / "entry";
    fs::create_directory(folder);
    try {
      run_in_child([&] { fill ? fill(folder) : fill_entry(folder, wanted_); }, [this] { own_.beat_if_it_can(); },
                   signals_);
    } catch (const CacheError& error) {
      if (!is_disk_full(error.what(), folder)) throw;
      throw CacheError(kSystemCode,
                       fmt::format("{}: the disk is full; make room, or set TMPDIR to a folder with more ({})",
                                   scratch.path().string(), error.what()));
    }
    const auto meta = parse_meta(read_small_file(folder / "meta.json").value_or(""));
    if (!meta) throw CacheError(kSystemCode, folder.string() + ": what was built has no meta.json");
    for (const CachedFile& file : meta->files)
      store_.upload(own_.name(file.path), folder / file.path, [this] { between(); });
    check_uploaded(*meta);
    own_.beat();  // it is still this job's
    store_.write(own_.name("used"), "");
    own_.commit(*meta);
  }

 private:
  void between() {
    signals_.wait(std::chrono::milliseconds(0));
    if (own_.is_beat_due()) own_.beat();
  }

  void check_uploaded(const CacheMeta& meta) {
    const auto there = store_.objects(own_.folder());
    for (const CachedFile& file : meta.files) {
      const auto found =
          std::find_if(there.begin(), there.end(), [&](const ObjectSeen& each) { return each.name == file.path; });
      if (found == there.end() || found->size != file.size)
        throw CacheError(kSystemCode, fmt::format("{}: the store has not kept what was written; start again",
                                                  store_.uri(own_.name(file.path))));
    }
  }

  ObjectStore& store_;
  const EntryWanted& wanted_;
  const StopSignals& signals_;
  OwnBuild& own_;
};

ClaimSight sight_of(const std::vector<ObjectBuild>& builds, const OwnBuild& own) {
  ClaimSight sight;
  sight.whole = whole_build(builds) != nullptr;
  for (const ObjectBuild& each : builds) {
    if (!each.claim) continue;
    if (each.job == own.owner())
      sight.has_own = true;
    else
      sight.others.push_back({*each.claim, is_dead_here(*each.claim)});
  }
  return sight;
}

// This job has the say: what is damaged goes, and what a dead job has left. False: there is an entry now.
bool clear_the_way(ObjectStore& store, const std::vector<ObjectBuild>& builds, const OwnBuild& own,
                   const ClaimWait& waiting, const EntryWanted& wanted) {
  for (const ObjectBuild& each : builds) {
    if (each.job == own.owner() || (each.claim && waiting.lives(each.claim->owner))) continue;
    if (is_committed_by_now(store, each)) return false;
    if (each.has_meta)
      wanted.say(fmt::format("{} is damaged: {}; it is built again", store.uri(each.name), each.damage));
    remove_build(store, each);
  }
  return true;
}

}  // namespace

ObjectGot find_or_build(ObjectStore& store, const EntryWanted& wanted, const StopSignals& signals,
                        const FillFolder& fill) {
  const LeaseTime began = now_of_claim();
  for (bool built = false;;) {
    OwnBuild own(store, wanted.key);
    ClaimWait waiting(wanted.patience, began, own.owner());
    for (bool is_over = false; !is_over;) {
      const auto builds = builds_in(store, wanted.key);
      const ClaimStep step = waiting.next(sight_of(builds, own), now_of_claim());
      switch (step) {
        case ClaimStep::use: {
          const ObjectBuild& whole = *whole_build(builds);
          if (!built) touch_build(store, whole);
          return {store.uri(whole.name), *whole.meta, built};
        }
        case ClaimStep::claim:
          if (own.is_there()) signals.wait(kStoreLookEvery);  // the store does not list it yet, or somebody removed it
          own.write_claim();
          break;
        case ClaimStep::withdraw:
          own.withdraw();
          break;
        case ClaimStep::take:
          is_over = true;
          try {
            if (!clear_the_way(store, builds, own, waiting, wanted)) break;  // look again
            ObjectBuilder(store, wanted, signals, own).run(fill);
            built = true;
          } catch (const ClaimLost&) {
            wanted.say("another job has taken this build for dead, so the data set is looked for again");
          }
          break;
        case ClaimStep::tell:
          if (waiting.builder()) wanted.say(waits_for(*waiting.builder()));
          [[fallthrough]];
        case ClaimStep::wait:
          signals.wait(kStoreLookEvery);
          break;
        case ClaimStep::give_up:
          throw CacheError(kLateCode, has_waited(waiting.builder(), wanted.patience.most));
      }
    }
  }
}

}  // namespace dtrain::data
