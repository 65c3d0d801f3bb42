// The folders of checkpoints on a disk: attempts, steps, what is taken for complete. The files are golden: `dtrain
// ckpt` has a reader of its own (test/unit/cli/ckpt).
#include "strategies/checkpoint/step_folder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "strategies/checkpoint/crc32c.h"
#include "strategies/checkpoint/range_file.h"
#include "test/support/catch.h"
#include "test/support/error_of.h"
#include "test/support/golden.h"
#include "test/support/temp_folder.h"

using namespace dtrain;
using namespace dtrain::checkpoint;

namespace {

const std::string kWord = "hello", kText = "checkpoint\n";

Layout small_layout() {
  return plan_layout({{"text", stored_type("U8"), {11}}, {"greeting", stored_type("I8"), {1, 5}}}, "model", 0);
}

// As rank 0 and another rank do it, but for the sums of the other's.
std::string save(const std::string& folder, std::int64_t step) {
  const Layout layout = small_layout();
  const std::string attempt = begin_attempt(folder, step);
  make_files(attempt, layout);
  const auto second = write_parts(attempt, layout, {{1, 5, 0, nullptr}, {0, 4, 7, kText.data() + 4}}, true);
  begin_files(attempt, layout);
  const auto first = write_parts(attempt, layout, {{0, 0, 4, kText.data()}, {1, 0, 5, kWord.data()}}, true);
  const auto whole = whole_sums(layout.tensors, {first, second});
  Manifest manifest{step, 2, {{layout.files[0].name, layout.files[0].bytes, {}}}, R"({"epoch":3})"};
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(whole[i].covered);
    manifest.files[0].sums[layout.tensors[i].name] = whole[i].sum;
  }
  write_whole(attempt + "/" + kManifestName, manifest_text(manifest), true);
  finish_attempt(folder, attempt, step, true);
  return folder + "/" + step_name(step);
}

std::vector<std::string> names_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// How many pages of a file are in the page cache.
std::int64_t cached_pages(const std::string& path, std::size_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  REQUIRE(at != MAP_FAILED);
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  REQUIRE(::mincore(at, bytes, pages.data()) == 0);
  ::munmap(at, bytes);
  return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1U) != 0; });
}

bool can_write_directly(const std::string& folder) {
  const std::string path = folder + "/direct";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
  alignas(4096) static const char block[4096] = {};
  const bool can = file >= 0 && ::pwrite(file, block, sizeof block, 0) == sizeof block && cached_pages(path, 4096) == 0;
  if (file >= 0) ::close(file);
  return can;
}

std::string refused(const std::function<void()>& call) { return dtrain::test::error_of<Refused>(call, "accepted"); }

}  // namespace

TEST_CASE("checkpoint folder: the files of a step are the golden ones") {
  test::TempFolder folder;
  const std::string step = save(folder / "run", 7);
  CHECK(names_of(step) == std::vector<std::string>{"dtrain.json", "model.safetensors"});
  CHECK_FALSE(why_incomplete(step).has_value());
  for (const std::string& name : names_of(step))
    test::check_golden("checkpoint/step-00000007/" + name, read_whole(step + "/" + name, 1 << 20));
}

TEST_CASE("checkpoint folder: a step is saved again, attempts are removed, old steps go") {
  test::TempFolder folder;
  const std::string run = folder / "run";
  for (const std::int64_t step : {3, 7, 7, 12}) save(run, step);
  std::filesystem::create_directories(run + "/step-00000009.tmp-1-0/x");
  std::filesystem::create_directories(run + "/step-00000010");  // without dtrain.json
  CHECK(steps_in(run) == std::vector<std::int64_t>{12, 10, 7, 3});
  const std::vector<std::string> taken = take_old_steps(run, 12, 2);
  CHECK(steps_in(run) == std::vector<std::int64_t>{12, 10, 7});  // it may be no checkpoint, and counts for none
  REQUIRE(taken.size() == 1);
  CHECK(std::filesystem::exists(taken[0] + "/model.safetensors"));
  remove_folders(taken);
  CHECK_FALSE(std::filesystem::exists(taken[0]));
  CHECK(take_old_steps(run, 12, 0).empty());
  CHECK(steps_in(run) == std::vector<std::int64_t>{12, 10, 7});
  const std::string attempt = begin_attempt(run, 13);
  CHECK(names_of(run) == std::vector<std::string>{"step-00000007", "step-00000010", "step-00000012",
                                                  std::filesystem::path(attempt).filename()});
  CHECK(steps_in(folder / "none").empty());
  CHECK(step_name(123456789) == "step-123456789");
}

TEST_CASE("checkpoint folder: a damaged step is none of those that are kept") {
  test::TempFolder folder;
  const std::string run = folder / "run";
  for (const std::int64_t step : {3, 5, 7, 9, 12}) save(run, step);
  std::filesystem::resize_file(run + "/step-00000009/model.safetensors", 10);
  std::filesystem::resize_file(run + "/step-00000003/model.safetensors", 10);
  remove_folders(take_old_steps(run, 12, 2));
  CHECK(steps_in(run) == std::vector<std::int64_t>{12, 9, 7});
  std::filesystem::resize_file(run + "/step-00000007/model.safetensors", 10);
  remove_folders(take_old_steps(run, 12, 2));
  CHECK(steps_in(run) == std::vector<std::int64_t>{12, 9, 7});  // too few are complete
}

TEST_CASE("checkpoint folder: what is not complete says why") {
  test::TempFolder folder;
  const std::string step = save(folder / "run", 7);
  const std::string file = step + "/model.safetensors";
  const auto size = std::filesystem::file_size(file);
  std::filesystem::resize_file(file, size - 1);
  CHECK(why_incomplete(step)->ends_with(" bytes, and should have " + std::to_string(size)));
  std::filesystem::remove(file);
  CHECK(*why_incomplete(step) == file + " cannot be opened: No such file or directory");
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK(*why_incomplete(step) == file + " is no regular file");
  std::filesystem::resize_file(step + "/dtrain.json", 20);
  CHECK(*why_incomplete(step) == step + "/dtrain.json: its JSON is damaged");
}

TEST_CASE("checkpoint folder: the newest step is told apart from damaged ones, and these from unfinished ones") {
  const auto newest_in = [](const std::string& run, std::int64_t below, const std::vector<std::string>& ends) {
    std::vector<std::string> damaged;
    const std::int64_t step = newest_complete(run, below, damaged);
    REQUIRE(damaged.size() == ends.size());
    for (std::size_t i = 0; i < ends.size(); ++i) CHECK(damaged[i] == run + "/" + ends[i]);
    return step;
  };
  test::TempFolder folder;
  const std::string run = folder / "run", no_file = " cannot be opened: No such file or directory";
  CHECK(newest_in(run, 100, {}) == -1);
  // Whatever a kill leaves of a first save: less than all files, all of them, an earlier step put away.
  const std::string attempt = begin_attempt(run, 3);
  CHECK(newest_in(run, 100, {}) == -1);
  make_files(attempt, small_layout());
  write_whole(attempt + "/" + kManifestName, "{", false);
  CHECK(newest_in(run, 100, {}) == -1);
  std::filesystem::rename(save(run, 3), run + "/step-00000003.tmp-1-old");
  CHECK(newest_in(run, 100, {}) == -1);
  std::filesystem::create_directories(run + "/step-3");  // the name of no step
  CHECK(newest_in(run, 100, {}) == -1);
  for (const std::int64_t step : {3, 4, 5, 6, 7}) save(run, step);
  CHECK(newest_in(run, 100, {}) == 7);
  CHECK(newest_in(run, 5, {}) == 4);
  std::filesystem::remove(run + "/step-00000007/dtrain.json");
  std::filesystem::resize_file(run + "/step-00000006/dtrain.json", 0);
  std::filesystem::remove(run + "/step-00000005/model.safetensors");
  std::filesystem::remove_all(run + "/step-00000004");
  std::filesystem::create_directory_symlink("away", run + "/step-00000004");  // as of a disk that is not there
  const std::vector<std::string> damaged{
      "step-00000007/dtrain.json" + no_file, "step-00000006/dtrain.json: its JSON is damaged",
      "step-00000005/model.safetensors" + no_file, "step-00000004/dtrain.json" + no_file};
  CHECK(newest_in(run, 100, damaged) == 3);
  std::filesystem::remove_all(run + "/step-00000003");
  CHECK(newest_in(run, 100, damaged) == -1);
}

TEST_CASE("checkpoint folder: without an exchange of names the earlier step is there until the later one is") {
  test::TempFolder folder;
  const std::string run = folder / "run", step = save(run, 3);
  CHECK(refused([&] { put_in_place(run + "/none", step); }).find("cannot be renamed") != std::string::npos);
  CHECK_FALSE(why_incomplete(step).has_value());
  const std::string attempt = begin_attempt(run, 3);
  write_whole(attempt + "/later", "x", false);
  const std::string old = put_in_place(attempt, step);
  CHECK(std::filesystem::exists(step + "/later"));
  CHECK_FALSE(why_incomplete(old).has_value());
  CHECK(steps_in(run) == std::vector<std::int64_t>{3});
  CHECK(why_incomplete(step)->ends_with("dtrain.json cannot be opened: No such file or directory"));  // the later one
  begin_attempt(run, 4);
  CHECK_FALSE(std::filesystem::exists(old));
}

TEST_CASE("checkpoint folder: what cannot be read is not taken for empty") {
  test::TempFolder folder;
  const std::string run = folder / "run", file = folder / "file";
  folder.write("file", "x");
  CHECK(refused([&] { steps_in(file + "/run"); }) == file + "/run cannot be read: Not a directory");
  save(run, 3);
  std::filesystem::create_directories(run + "/step-00000004");
  std::filesystem::create_symlink(kManifestName, run + "/step-00000004/" + kManifestName);
  CHECK(steps_in(run) == std::vector<std::int64_t>{4, 3});
  CHECK(why_incomplete(run + "/step-00000004")->ends_with("cannot be opened: Too many levels of symbolic links"));
}

TEST_CASE("checkpoint folder: an error of close is an error of the file") {
  test::TempFolder folder;
  const int next = ::dup(0);  // the number that the file gets
  ::close(next);
  RangeFile file(folder / "file", RangeFile::Use::create);
  REQUIRE(::close(next) == 0);
  CHECK(refused([&] { file.close(); }) == folder / "file" + " cannot be written: Bad file descriptor");
}

TEST_CASE("checkpoint folder: a folder that is a file, a file that was cut") {
  test::TempFolder folder;
  folder.write("file", "x");
  CHECK(refused([&] { begin_attempt(folder / "file", 1); }) ==
        "the folder " + folder / "file" + " cannot be made: Not a directory");
  CHECK(refused([&] { read_header(folder / "file"); }) ==
        folder / "file" + " is damaged: it has 1 bytes, too few for a header");
  RangeFile file(folder / "file", RangeFile::Use::read);
  std::string bytes(2, '\0');
  CHECK(refused([&] { file.read(0, bytes.data(), 2); }) == folder / "file" + " ends too early: it was cut");
  CHECK(refused([&] { write_whole(folder / "file", "y", false); }) == folder / "file" + " cannot be made: File exists");
}

TEST_CASE("checkpoint folder: ranges past the page cache have the same bytes and sums") {
  constexpr std::size_t kBytes = std::size_t{24} << 20;
  std::mt19937_64 random(4);
  std::string data(kBytes, '\0');
  for (std::size_t i = 0; i < kBytes; i += 8) {
    const std::uint64_t word = random();
    data.replace(i, 8, reinterpret_cast<const char*>(&word), 8);
  }
  test::TempFolder disk, memory("/dev/shm");
  for (const std::string& folder : {disk / "", memory / ""}) {
    INFO(folder);
    const std::string path = folder + "file";
    RangeFile(path, RangeFile::Use::create).reserve(kBytes);
    // Borders of parts are anywhere: some are small, some large, some end where a block ends.
    std::vector<std::size_t> borders{0, 5, 4096, std::size_t{9} << 20, kBytes - 1, kBytes};
    for (int i = 0; i < 6; ++i) borders.push_back(random() % kBytes);
    std::sort(borders.begin(), borders.end());
    std::vector<std::size_t> order(borders.size() - 1);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    {
      RangeFile files[2] = {{path, RangeFile::Use::write}, {path, RangeFile::Use::write}};  // as two ranks
      for (RangeFile& each : files) each.write_directly();
      for (const std::size_t part : order) {
        const std::size_t begin = borders[part], bytes = borders[part + 1] - begin;
        CHECK(files[part % 2].write(begin, data.data() + begin, bytes, 7) == crc32c(7, data.data() + begin, bytes));
      }
      if (can_write_directly(folder)) CHECK(cached_pages(path, kBytes) < static_cast<std::int64_t>(kBytes / 4096 / 2));
      for (RangeFile& each : files) each.close();
    }
    CHECK(read_whole(path, kBytes) == data);
  }
}

TEST_CASE("checkpoint folder: what cannot be written past the page cache is an error of the file") {
  test::TempFolder folder;
  const std::string path = folder / "file";
  RangeFile file(path, RangeFile::Use::create);
  file.write_directly();
  const std::string data(std::size_t{2} << 20, 'x');
  ::unlink(path.c_str());
  CHECK(refused([&] { file.write(std::uint64_t{1} << 62, data.data(), data.size()); }) ==
        path + " cannot be written: File too large");
}
