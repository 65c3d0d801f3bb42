// Tested by test/process/data/nodes_test.py.
#include "data/together/left_build.h"

#include <string>
#include <system_error>
#include <vector>

#include "data/process/process.h"
#include "data/shared/shared_files.h"
#include "data/together/shared_job.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

// Before there is a plan, a build has made folders alone, and a draft of the plan.
bool is_before_plan(const fs::path& folder) {
  const fs::path work = work_folder(folder);
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(work, error))) return false;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const fs::path& path = at->path();
    const bool is_draft = path.parent_path() == work && path.filename().string().starts_with("plan.json.");
    if (!is_draft && !fs::is_directory(at->symlink_status(error))) return false;
  }
  return !error;
}

}  // namespace

void check_shared_folder(const fs::path& folder) {
  if (!is_there((work_folder(folder) / "plan.json").string()) && !is_before_plan(folder)) check_folder(folder);
}

void clear_shared_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove(work_folder(folder) / "plan.json", error);
  clear_folder(folder);
}

void keep_only(const fs::path& folder, const std::set<fs::path>& files) {
  std::set<fs::path> folders{folder};
  for (const fs::path& file : files) folders.insert(file.parent_path());
  for (const fs::path& each : folders) {
    std::error_code error;
    std::vector<fs::path> others;
    for (fs::directory_iterator at(each, error); !error && at != fs::directory_iterator(); at.increment(error))
      if (!files.contains(at->path()) && !folders.contains(at->path())) others.push_back(at->path());
    if (error) throw_of_path(each.string(), error.value());
    for (const fs::path& other : others) {
      fs::remove_all(other, error);
      if (error) throw_of_path(other.string(), error.value());
    }
  }
}

}  // namespace dtrain::data
