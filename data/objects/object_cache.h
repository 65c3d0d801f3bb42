#pragma once
// A cache in an object store. A store renames nothing and locks nothing, so each build has a folder of its own, and
// nobody else writes there:
//   KEY.JOB/claim      who builds (claim_plan.h)
//   KEY.JOB/train/...  the data
//   KEY.JOB/meta.json  written last, with size and SHA-256 of each file. Without it there is no entry
//   KEY.JOB/used       written when a job takes the entry; its time counts
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "data/cache/lease_plan.h"
#include "data/cache/meta_wire.h"
#include "data/objects/object_store.h"

namespace dtrain::data {

// What lies in one of those folders.
struct ObjectBuild {
  std::string name{};  // of the folder
  std::string key{};
  std::string job{};
  bool has_meta = false;
  std::optional<CacheMeta> meta{};
  std::string damage{};           // of a build with meta.json; empty: each file has the size that it should
  std::optional<Lease> claim{};   // of a build without
  std::chrono::seconds unused{};  // since a job took it
  std::chrono::seconds quiet{};   // since anything of it was written
  bool is_whole() const { return has_meta && damage.empty(); }
};

std::string build_name(const std::string& key, const std::string& job);

// The oldest first. `key`: empty means all. Of a claim that cannot be read, the text is its owner.
std::vector<ObjectBuild> builds_in(ObjectStore& store, const std::string& key);

// The one that counts, where two jobs have built the same: the oldest. Nullptr: none is whole.
const ObjectBuild* whole_build(const std::vector<ObjectBuild>& builds);

// It has been used now, if this job may write there.
void touch_build(ObjectStore& store, const ObjectBuild& build);

// Whether a build without meta.json has it by now. Ask after its job was found dead: a job that is done has ended too.
bool is_committed_by_now(ObjectStore& store, const ObjectBuild& build);

// Nobody takes it for an entry from the first moment on.
void remove_build(ObjectStore& store, const ObjectBuild& build);

// The first file that is not what meta.json says. Reads all.
std::optional<std::string> first_difference(ObjectStore& store, const ObjectBuild& build);

}  // namespace dtrain::data
