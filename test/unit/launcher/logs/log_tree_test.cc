#include "launcher/logs/log_tree.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <regex>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

JobSpec spec_for(const std::string& log_dir, const std::string& run_id = "job-1") {
  JobSpec spec;
  spec.run_id = run_id;
  spec.log_dir = log_dir;
  return spec;
}

// TMPDIR for the length of a test.
struct TemporaryTmpdir {
  test::TempFolder folder;
  std::string before = std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "";
  TemporaryTmpdir() { ::setenv("TMPDIR", folder.path().c_str(), 1); }
  ~TemporaryTmpdir() { before.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1); }
  size_t entries() const { return size_t(std::distance(fs::directory_iterator(folder.path()), {})); }
};

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

}  // namespace

TEST_CASE("the layout is torchrun's, private, and closed on exec") {
  test::TempFolder folder;
  auto tree = LogTree::create(spec_for(folder / "a/b"));
  REQUIRE(tree);
  CHECK(std::regex_match(tree->path(), std::regex(folder.path().string() + "/a/b/job-1_[a-z0-9]{8}")));
  auto files = tree->open_worker(2, 11, Streams::all);
  REQUIRE(files);
  CHECK(files->paths.out == tree->path() + "/attempt_2/11/stdout.log");
  CHECK(files->paths.err == tree->path() + "/attempt_2/11/stderr.log");
  CHECK(files->paths.error_file == tree->path() + "/attempt_2/11/error.json");
  CHECK_FALSE(fs::exists(files->paths.error_file));
  CHECK(mode_of(folder / "a") == 0700);
  CHECK(mode_of(tree->path() + "/attempt_2/11") == 0700);
  CHECK(mode_of(files->paths.out) == 0600);
  CHECK((::fcntl(files->out.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(files->err.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("only the streams asked for have files, the folder is there in any case") {
  test::TempFolder folder;
  auto tree = LogTree::create(spec_for(folder.path().string()));
  REQUIRE(tree);
  auto files = tree->open_worker(0, 0, Streams::err);
  REQUIRE(files);
  CHECK(files->paths.out.empty());
  CHECK_FALSE(files->out);
  CHECK(files->err);
  CHECK(fs::is_directory(fs::path(files->paths.error_file).parent_path()));
}

TEST_CASE("a second round with the same restart count does not overwrite the first") {
  test::TempFolder folder;
  auto tree = LogTree::create(spec_for(folder.path().string()));
  REQUIRE(tree);
  auto first = tree->open_worker(0, 0, Streams::out);
  auto second = tree->open_worker(0, 0, Streams::out);
  auto third = tree->open_worker(0, 0, Streams::out);
  REQUIRE((first && second && third));
  CHECK(second->paths.out == tree->path() + "/attempt_0_2/0/stdout.log");
  CHECK(third->paths.out == tree->path() + "/attempt_0_3/0/stdout.log");
  CHECK(tree->open_worker(0, 1, Streams::out)->paths.out == tree->path() + "/attempt_0_3/1/stdout.log");
  CHECK(tree->open_worker(1, 0, Streams::out)->paths.out == tree->path() + "/attempt_1/0/stdout.log");
}

TEST_CASE("rounds with the same restart count do not run out") {
  test::TempFolder folder;
  auto tree = LogTree::create(spec_for(folder.path().string()));
  REQUIRE(tree);
  for (int round = 0; round < 150; ++round) REQUIRE(tree->open_worker(0, 0, Streams::none));
}

TEST_CASE("two jobs of one id have folders of their own") {
  test::TempFolder folder;
  auto a = LogTree::create(spec_for(folder.path().string()));
  auto b = LogTree::create(spec_for(folder.path().string()));
  REQUIRE((a && b));
  CHECK(a->path() != b->path());
}

TEST_CASE("a run id cannot leave the log folder") {
  test::TempFolder folder;
  for (const std::string& run_id : std::vector<std::string>{"../../etc", "a/b", "", "..", std::string(1000, 'x')}) {
    auto tree = LogTree::create(spec_for(folder.path().string(), run_id));
    REQUIRE(tree);
    CHECK(fs::path(tree->path()).parent_path() == folder.path());
  }
}

TEST_CASE("/dev/null means no files at all") {
  auto tree = LogTree::create(spec_for("/dev/null"));
  REQUIRE(tree);
  CHECK(tree->path().empty());
  auto files = tree->open_worker(0, 0, Streams::all);
  REQUIRE(files);
  CHECK_FALSE(files->out);
  CHECK(files->paths.error_file.empty());
  tree->remove_if_empty();
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("an impossible log folder is one clear line") {
  test::TempFolder folder;
  folder.write("file", "x");
  auto on_file = LogTree::create(spec_for(folder / "file"));
  REQUIRE_FALSE(on_file);
  CHECK(on_file.error().kind == ErrorKind::usage);
  CHECK(on_file.error().message ==
        "cannot make the log folder " + (folder / "file") + " (choose another with --log-dir): Not a directory");
  CHECK_FALSE(LogTree::create(spec_for(folder / "file/sub")));
  auto unwritable = LogTree::create(spec_for("/proc/dtrain"));
  REQUIRE_FALSE(unwritable);
  CHECK(unwritable.error().message.find('\n') == std::string::npos);
  CHECK(folder.read("file") == "x");
}

TEST_CASE("a temporary tree is removed if it holds no file") {
  TemporaryTmpdir tmp;
  auto tree = LogTree::create(spec_for(""));
  REQUIRE(tree);
  REQUIRE(tree->open_worker(0, 0, Streams::none));
  REQUIRE(tree->open_worker(0, 1, Streams::none));
  CHECK(tmp.entries() == 1);
  tree->remove_if_empty();
  CHECK(tmp.entries() == 0);
}

TEST_CASE("a place that does not take the tree is said, and the next one taken") {
  TemporaryTmpdir tmp;
  ::setenv("TMPDIR", (tmp.folder / "none").c_str(), 1);
  auto tree = LogTree::create(spec_for(""));
  REQUIRE(tree);
  CHECK(fs::path(tree->temporary_base()).parent_path() == "/tmp");
  CHECK(tree->take_notes() == std::vector<std::string>{"no place for temporary files: " + (tmp.folder / "none") +
                                                       " (No such file or directory); using /tmp"});
  CHECK(tree->take_notes().empty());
  tree->remove_if_empty();
}

TEST_CASE("a worker without a folder has no error file, but its streams must have theirs") {
  TemporaryTmpdir tmp;
  auto tree = LogTree::create(spec_for(""));
  REQUIRE(tree);
  fs::remove_all(tree->path());
  for (int local_rank : {0, 1}) {
    auto files = tree->open_worker(1, local_rank, Streams::none);
    REQUIRE(files);
    CHECK(files->paths.error_file.empty());
    CHECK(files->attempt.empty());
  }
  const auto notes = tree->take_notes();
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("workers have no error file: cannot make the log folder " + tree->path()));
  CHECK_FALSE(tree->open_worker(1, 2, Streams::out));
}

TEST_CASE("a temporary tree with an error file stays") {
  TemporaryTmpdir tmp;
  auto tree = LogTree::create(spec_for(""));
  REQUIRE(tree);
  auto files = tree->open_worker(0, 0, Streams::none);
  REQUIRE(files);
  std::ofstream(files->paths.error_file) << "{}";
  tree->remove_if_empty();
  CHECK(fs::exists(files->paths.error_file));
}

TEST_CASE("a tree that the user named stays, empty or not") {
  test::TempFolder folder;
  auto tree = LogTree::create(spec_for(folder.path().string()));
  REQUIRE(tree);
  tree->remove_if_empty();
  CHECK(fs::is_directory(tree->path()));
}

}  // namespace dtrain::launcher
