// Entries of a cache in an object store: found, built, waited for and built again. The store is a map, with what may
// happen meanwhile; test/process/data/object_cache_test.py has a real one.
#include "data/objects/build_object.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <fstream>
#include <map>
#include <utility>

#include "data/cache/cache_error.h"
#include "data/cache/lease_file.h"
#include "data/cache/sha256.h"
#include "data/commands/object_command.h"
#include "data/objects/object_cache.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain::data;
using Catch::Contains;
using dtrain::test::TempFolder;
namespace fs = std::filesystem;

namespace {

const std::string kObjectKey(64, 'b');

class MapStore : public ObjectStore {
 public:
  std::map<std::string, std::string> objects_of{};
  // Called before a write of such a name.
  std::map<std::string, std::function<void()>> before{};
  std::function<void(const std::string& name)> before_read = [](const std::string&) {};

  std::string uri(const std::string& name) const override { return "s3://bucket/" + name; }
  std::vector<std::string> folders() override {
    std::vector<std::string> out;
    for (const auto& [name, text] : objects_of)
      if (const std::string folder = name.substr(0, name.find('/')); out.empty() || out.back() != folder)
        out.push_back(folder);
    return out;
  }
  std::vector<ObjectSeen> objects(const std::string& folder) override {
    std::vector<ObjectSeen> out;
    for (const auto& [name, text] : objects_of)
      if (name.starts_with(folder + "/"))
        out.push_back({name.substr(folder.size() + 1), text.size(), std::time(nullptr)});
    return out;
  }
  std::optional<std::string> read(const std::string& name) override {
    before_read(name);
    const auto found = objects_of.find(name);
    return found == objects_of.end() ? std::nullopt : std::optional(found->second);
  }
  void write(const std::string& name, std::string_view text) override {
    happen(name);
    objects_of[name] = text;
  }
  void upload(const std::string& name, const fs::path& file, const Between& between) override {
    between();
    happen(name);
    objects_of[name] = read_small_file(file).value();
  }
  void read_through(const std::string& name, const TakePiece& take) override { take(objects_of.at(name)); }
  void remove(const std::string& name) override { objects_of.erase(name); }
  void remove_folder(const std::string& folder) override {
    std::erase_if(objects_of, [&](const auto& each) { return each.first.starts_with(folder + "/"); });
  }

 private:
  void happen(const std::string& name) {
    const std::string file = name.substr(name.find('/') + 1);
    const auto found = before.find(file);
    if (found == before.end()) return;
    const auto hook = found->second;
    hook();
  }
};

struct StoreBench {
  TempFolder folder{};
  MapStore store{};
  StopSignals signals{};
  std::vector<std::string> said{};

  StoreBench() { ::setenv("TMPDIR", folder.path().c_str(), 1); }
  ~StoreBench() { ::unsetenv("TMPDIR"); }
  StoreBench(const StoreBench&) = delete;
  StoreBench& operator=(const StoreBench&) = delete;

  EntryWanted wanted(const std::string& data = "data") {
    EntryWanted out;
    out.key = kObjectKey;
    out.recipe = {{"seed", 1}};
    out.build = [this, data](const fs::path& into) -> RowsOfSplits {
      std::ofstream(folder.path() / "builds", std::ios::app) << "x";
      fs::create_directories(into / "train");
      std::ofstream(into / "train/part-00000.parquet") << data;
      return {{"train", 4}};
    };
    out.say = [this](const std::string& line) { said.push_back(line); };
    return out;
  }
  std::size_t builds() const { return folder.read("builds").size(); }
  std::string why_not(const EntryWanted& asked, int code = kSystemCode) {
    try {
      find_or_build(store, asked, signals);
      return "fine";
    } catch (const CacheError& error) {
      CHECK(error.code == code);
      return error.what();
    }
  }
  std::size_t scratches() const {
    std::size_t count = 0;
    for (const auto& each : fs::directory_iterator(folder.path()))
      if (each.path().filename().string().starts_with("dtrain-build-")) ++count;
    return count;
  }
  // As another job commits it.
  void commit_of(const std::string& job, const std::string& data, std::int64_t made) {
    CacheMeta meta;
    meta.key = kObjectKey;
    meta.made = made;
    meta.files.push_back({"train/part-00000.parquet", data.size(), sha256_of(data)});
    store.objects_of[kObjectKey + "." + job + "/train/part-00000.parquet"] = data;
    store.objects_of[kObjectKey + "." + job + "/meta.json"] = meta_text(meta);
  }
};

}  // namespace

TEST_CASE("an entry of a store is built once, found again, and its bytes are checked") {
  StoreBench bench;
  const ObjectGot built = find_or_build(bench.store, bench.wanted(), bench.signals);
  CHECK(built.built);
  CHECK_THAT(built.uri, Catch::StartsWith("s3://bucket/" + kObjectKey + "."));
  CHECK(built.meta.rows.at("train") == 4);
  const ObjectGot found = find_or_build(bench.store, bench.wanted(), bench.signals);
  CHECK_FALSE(found.built);
  CHECK(found.uri == built.uri);
  CHECK(bench.builds() == 1);
  CHECK(bench.store.folders().size() == 1);
  CHECK(bench.scratches() == 0);
  const auto builds = builds_in(bench.store, "");
  REQUIRE(builds.size() == 1);
  CHECK_FALSE(first_difference(bench.store, builds[0]));
  bench.store.objects_of[builds[0].name + "/train/part-00000.parquet"] = "dada";
  CHECK_THAT(first_difference(bench.store, builds[0]).value_or(""), Contains("its SHA-256 differs"));
}

TEST_CASE("an upload that fails leaves no entry and no object") {
  for (const char* file : {"train/part-00000.parquet", "meta.json", "used"}) {
    StoreBench bench;
    bench.store.before[file] = [] { throw CacheError(kSystemCode, "the connection is gone"); };
    CHECK(bench.why_not(bench.wanted()) == "the connection is gone");
    CHECK(bench.store.objects_of.empty());
    CHECK(bench.scratches() == 0);
  }
}

TEST_CASE("a signal in the middle of an upload leaves nothing in the store") {
  StoreBench bench;
  EntryWanted wanted = bench.wanted();
  wanted.build = [](const fs::path& into) -> RowsOfSplits {
    for (const char* name : {"a", "b"}) std::ofstream(into / name) << "data";
    return {};
  };
  bench.store.before["a"] = [] { ::kill(::getpid(), SIGTERM); };
  CHECK_THROWS_AS(find_or_build(bench.store, wanted, bench.signals), Interrupted);
  CHECK(bench.store.objects_of.empty());
  CHECK(bench.scratches() == 0);
}

TEST_CASE("a store that may not be written is known before anything is built") {
  StoreBench bench;
  bench.store.before["claim"] = [] { throw CacheError(kSystemCode, "access denied"); };
  CHECK(bench.why_not(bench.wanted()) == "access denied");
  CHECK(bench.folder.read("builds").empty());
}

TEST_CASE("two builders of one entry at once do no harm") {
  StoreBench bench;
  bench.store.before["meta.json"] = [&] { bench.commit_of("0", "other", 1); };
  const ObjectGot got = find_or_build(bench.store, bench.wanted(), bench.signals);
  CHECK(got.uri == "s3://bucket/" + kObjectKey + ".0");  // the older one counts, for all
  const auto builds = builds_in(bench.store, kObjectKey);
  REQUIRE(builds.size() == 2);
  for (const ObjectBuild& each : builds) CHECK_FALSE(first_difference(bench.store, each));
}

TEST_CASE("a build that was taken for dead begins again") {
  StoreBench bench;
  bool once = false;
  bench.store.before["train/part-00000.parquet"] = [&] {
    if (!std::exchange(once, true)) bench.store.objects_of.erase(bench.store.folders().at(0) + "/claim");
  };
  CHECK(find_or_build(bench.store, bench.wanted(), bench.signals).built);
  REQUIRE(bench.said.size() == 1);
  CHECK_THAT(bench.said[0], Contains("has taken this build for dead"));
  CHECK(bench.builds() == 2);
  CHECK(bench.store.folders().size() == 1);
}

namespace {

std::string claim_of_dead() {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    Lease lease = own_lease();
    lease.beat = 3;
    const std::string text = lease_text(lease);
    ::_exit(::write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(::read(ends[0], text.data(), text.size())));
  for (const int end : ends) ::close(end);
  REQUIRE(::waitpid(pid, nullptr, 0) == pid);
  return text;
}

}  // namespace

TEST_CASE("what a dead builder has left in a store goes, and so does what is damaged") {
  StoreBench bench;
  bench.store.objects_of[kObjectKey + ".dead/claim"] = claim_of_dead();
  bench.store.objects_of[kObjectKey + ".dead/train/part-00000.parquet"] = "da";
  bench.commit_of("short", "data", 1);
  bench.store.objects_of[kObjectKey + ".short/train/part-00000.parquet"] = "dat";
  CHECK(find_or_build(bench.store, bench.wanted(), bench.signals).built);
  REQUIRE(bench.said.size() == 1);
  CHECK(bench.said[0] == "s3://bucket/" + kObjectKey +
                             ".short is damaged: train/part-00000.parquet has 3 bytes, and should have 4; it is built "
                             "again");
  CHECK(bench.store.folders().size() == 1);
}

TEST_CASE("a build whose job commits and ends while it is looked at is an entry") {
  StoreBench bench;
  const std::string claim = kObjectKey + ".done/claim";
  bench.store.objects_of[claim] = claim_of_dead();
  int looks = 0;
  int commits_at = 2;  // when this job already has a claim of its own
  bench.store.before_read = [&](const std::string& name) {
    if (name == claim && ++looks == commits_at) bench.commit_of("done", "data", 1);
  };
  const ObjectGot got = find_or_build(bench.store, bench.wanted(), bench.signals);
  CHECK(looks == 2);
  CHECK_FALSE(got.built);
  CHECK(got.uri == "s3://bucket/" + kObjectKey + ".done");
  CHECK(bench.folder.read("builds").empty());
  // Nor does `dtrain cache gc` remove it.
  bench.store.objects_of.erase(kObjectKey + ".done/meta.json");
  commits_at = 3;
  CHECK(object_cache_command(bench.store, {{"do", "gc"}}) == 0);
  CHECK(looks == 3);
  CHECK(bench.store.objects_of.contains(kObjectKey + ".done/meta.json"));
}

TEST_CASE("who waits for a builder of a store gives up in the end, and leaves nothing") {
  StoreBench bench;
  Lease lease = own_lease();
  lease.beat = 1;
  bench.store.objects_of[kObjectKey + "." + lease.owner + "/claim"] = lease_text(lease);
  EntryWanted wanted = bench.wanted();
  wanted.patience.most = LeaseTime(0);
  CHECK_THAT(bench.why_not(wanted, kLateCode), Contains(builder_name(lease) + " still builds the data set after 0 s"));
  CHECK(bench.store.folders().size() == 1);
  // One that cannot be read is somebody's too.
  bench.store.objects_of.begin()->second = "{";
  CHECK_THAT(bench.why_not(wanted, kLateCode), Contains("somebody on an unknown host"));
}

TEST_CASE("what a builder of a store throws is its error, and leaves nothing") {
  StoreBench bench;
  EntryWanted wanted = bench.wanted();
  wanted.build = [](const fs::path&) -> RowsOfSplits { throw CacheError(kUsageCode, "no such column"); };
  CHECK(bench.why_not(wanted, kUsageCode) == "no such column");
  CHECK(bench.store.objects_of.empty());
}

TEST_CASE("a folder that a killed build has left on the disk goes with the next") {
  StoreBench bench;
  const fs::path left = bench.folder.path() / ("dtrain-build-" + std::to_string(::geteuid()) + "-abcdef");
  fs::create_directories(left / "entry");
  find_or_build(bench.store, bench.wanted(), bench.signals);
  CHECK_FALSE(fs::exists(left));
}
