#include "launcher/guard/job_notes.h"

#include <filesystem>
#include <memory>
#include <string>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {

TEST_CASE("a path that is too long for its note is none, and not the path that it begins with") {
  char note[4] = "old";
  note_path(note, "abc");
  CHECK(std::string(note) == "abc");
  note_path(note, "abcd");
  CHECK(std::string(note).empty());
  note_path(note, "");
  CHECK(std::string(note).empty());
}

TEST_CASE("what is removed of a job is what its notes name") {
  namespace fs = std::filesystem;
  const test::TempFolder folder;
  const fs::path tmp = folder / "tmp", job = tmp / "dtrain_abcdefgh", others = tmp / "of_another_program";
  fs::create_directories(job / "job_x/attempt_0/0");
  fs::create_directories(others);
  const auto notes = std::make_unique<JobNotes>();
  remove_what_is_left(*notes);
  CHECK(fs::exists(job));
  note_path(notes->temporary_folder, job.string());
  remove_what_is_left(*notes);
  CHECK_FALSE(fs::exists(job));
  CHECK(fs::exists(others));
}

}  // namespace dtrain::launcher
