// Memories that go to files and come back; and files that are not what they should be.
#include "launcher/spill/state_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "launcher/guard/memory_file.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;
using test::TempFolder;

namespace {

const StateOwner kOwner{"4711", 0, 1, 1, 2, false};
constexpr const char* kName = "dtrain-state.4711.n0.w1";
const auto never = [] { return false; };

std::string some_state(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 4096);
  return text;
}

UniqueFd memory_of(const std::string& state) {
  UniqueFd memory = make_memory_file("test-state");
  REQUIRE(::pwrite(memory.get(), state.data(), state.size(), 0) == static_cast<ssize_t>(state.size()));
  return memory;
}

std::string text_of(const UniqueFd& memory) {
  std::string text(*state_bytes(memory.get()), '\0');
  REQUIRE(::pread(memory.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  return text;
}

struct Place {
  TempFolder folder;
  UniqueFd fd = open_state_folder(folder.path()).value();

  Result<void> write(const std::string& state, MonoTime until = MonoTime::max()) const {
    const UniqueFd memory = memory_of(state);
    auto wrote = write_state_file(fd.get(), {kOwner, state.size()}, memory.get(), until);
    if (!wrote) return wrote.error();
    auto prepared = (*wrote)->prepare();
    return prepared ? (*wrote)->publish() : prepared;
  }
  std::string why_not_read(const StateOwner& owner = kOwner) const {
    const UniqueFd memory = make_memory_file("test-state");
    const auto read = read_state_file(fd.get(), owner, memory.get(), never);
    return read ? (*read ? "read" : "none") : read.error().message;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      names.push_back(entry.path().filename().string());
    return names;
  }
};

}  // namespace

TEST_CASE("a memory goes to a file that is its owner's alone, and comes back") {
  const Place place;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4} << 20, (std::size_t{9} << 20) + 5}) {
    const std::string state = some_state(bytes);
    REQUIRE(place.write(state).ok());
    struct stat facts {};
    REQUIRE(::stat((place.folder / kName).c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0600);
    const UniqueFd memory = make_memory_file("test-state");
    REQUIRE(*read_state_file(place.fd.get(), kOwner, memory.get(), never));
    CHECK(text_of(memory) == state);
    CHECK(::lseek(memory.get(), 0, SEEK_CUR) == 0);
  }
  CHECK(place.names() == std::vector<std::string>{kName});
}

TEST_CASE("a state that cannot be written leaves the one before, and nothing else") {
  const Place place;
  REQUIRE(place.write("before").ok());
  const std::string before = place.folder.read(kName);
  CHECK(place.write(some_state(100), MonoTime::min()).error().message ==
        std::string(kName) + ": the time was too short to write it");
  // As a full disk.
  rlimit all{};
  ::getrlimit(RLIMIT_FSIZE, &all);
  const rlimit little{rlim_t{1} << 20, all.rlim_max};
  const auto on_limit = std::signal(SIGXFSZ, SIG_IGN);
  const UniqueFd memory = memory_of(some_state(std::size_t{3} << 20));
  ::setrlimit(RLIMIT_FSIZE, &little);
  const auto wrote = write_state_file(place.fd.get(), {kOwner, std::uint64_t{3} << 20}, memory.get(), MonoTime::max());
  ::setrlimit(RLIMIT_FSIZE, &all);
  std::signal(SIGXFSZ, on_limit);
  REQUIRE_FALSE(wrote.ok());
  CHECK(wrote.error().message == std::string(kName) + ": File too large");
  CHECK(place.names() == std::vector<std::string>{kName});
  CHECK(place.folder.read(kName) == before);
}

TEST_CASE("a state that is written does not count before it is published") {
  const Place place;
  REQUIRE(place.write("before").ok());
  const std::string before = place.folder.read(kName);
  const UniqueFd memory = memory_of("after");
  const StateHead head{kOwner, 5};
  for (const bool prepare : {false, true}) {  // and thrown away
    auto wrote = write_state_file(place.fd.get(), head, memory.get(), MonoTime::max());
    REQUIRE(wrote.ok());
    if (prepare) REQUIRE((*wrote)->prepare().ok());
    CHECK(place.names().size() == (prepare ? 2 : 1));
  }
  CHECK(place.names() == std::vector<std::string>{kName});
  CHECK(place.folder.read(kName) == before);
  auto wrote = write_state_file(place.fd.get(), head, memory.get(), MonoTime::max());
  REQUIRE(wrote.ok());
  REQUIRE((*wrote)->prepare().ok());
  CHECK(place.folder.read(kName) == before);
  REQUIRE((*wrote)->publish().ok());
  CHECK(place.folder.read(kName) != before);
  CHECK(place.names() == std::vector<std::string>{kName});
}

TEST_CASE("what is no state of this worker is not read") {
  const Place place;
  CHECK(place.why_not_read() == "none");
  REQUIRE(place.write(some_state(10000)).ok());
  const std::string good = place.folder.read(kName), name = std::string(kName) + ": ";
  CHECK(place.why_not_read() == "read");
  const auto with = [&](const std::string& bytes) {
    place.folder.write(kName, bytes);
    return place.why_not_read();
  };
  CHECK(with("") == name + "it is cut off, or no state that dtrain has written");
  CHECK(with(good.substr(0, 5000)) == name + "it has 5000 bytes, and should have 14100");
  CHECK(with(good + "x") == name + "it has 14101 bytes, and should have 14100");
  CHECK(with(std::string(9000, 'x')) == name + "it is no state that dtrain has written, or it is damaged");
  for (const std::size_t at : {std::size_t{3000}, std::size_t{4096}, std::size_t{14000}, good.size() - 1}) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    CHECK_THAT(with(damaged), Contains(name + "it is "));
  }
  CHECK(with(good) == "read");
  StateOwner other = kOwner;
  other.workers = 3;
  CHECK_THAT(place.why_not_read(other),
             Contains("it was written by a node with 2 workers in a job of 1 node; this node has 3 workers"));
  CHECK(read_state_file(place.fd.get(), kOwner, make_memory_file("x").get(), [] { return true; }).error().message ==
        name + "the job is to end");
}

TEST_CASE("a state's file of others is not read, and no link is followed") {
  const Place place;
  REQUIRE(place.write("state").ok());
  const std::string path = place.folder / kName, name = std::string(kName) + ": ";
  ::chmod(path.c_str(), 0644);
  CHECK(place.why_not_read() == name + "others may read or change it (mode 0644)");
  ::chmod(path.c_str(), 0600);
  std::filesystem::rename(path, place.folder / "elsewhere");
  std::filesystem::create_symlink("elsewhere", path);
  CHECK(place.why_not_read() == name + "it is a link, which is not followed");
  // And none is written through.
  REQUIRE(place.write("other").ok());
  CHECK_FALSE(std::filesystem::is_symlink(path));
  CHECK(place.folder.read("elsewhere").find("state") != std::string::npos);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(place.why_not_read() == name + "it is not a regular file");
  if (::geteuid() != 0) return;
  std::filesystem::remove(path);
  REQUIRE(place.write("state").ok());
  REQUIRE(::chown(path.c_str(), 65534, 65534) == 0);
  CHECK(place.why_not_read() == name + "it belongs to user 65534, not to you (0)");
}

TEST_CASE("the files of a job's states are removed, and no others") {
  const Place place;
  for (const char* name : {"dtrain-state.4711.n0.w0", "dtrain-state.4711.n1.w0.copy", "dtrain-state.4711.n1.w0.part",
                           "dtrain-state.471.n0.w0", "mine"})
    place.folder.write(name, "x");
  CHECK(*remove_state_files(place.fd.get(), "4711", 1) == 2);
  CHECK(*remove_state_files(place.fd.get(), "4711", {}) == 1);
  CHECK(*remove_state_files(place.fd.get(), "4711", {}) == 0);
  CHECK(place.names().size() == 2);
}
