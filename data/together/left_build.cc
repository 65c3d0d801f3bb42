// Tested by test/process/data/nodes_test.py.
#include "data/together/left_build.h"

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "data/process/process.h"
#include "data/shared/shared_files.h"
#include "data/together/plan_file.h"
#include "data/together/shared_job.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

// A link may go to what is of somebody else.
bool has_work_folder(const fs::path& folder) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(work_folder(folder), error));
}

bool has_plan(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(plan_path(work_folder(folder)), error))) return false;
  const auto plan = read_plan(work_folder(folder));
  return plan && is_plan_of_some_version(*plan);
}

// Before there is a plan, a build has made folders alone, and a draft of the plan.
bool is_before_plan(const fs::path& folder) {
  const fs::path work = work_folder(folder);
  std::error_code error;
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
  if (!has_work_folder(folder) || (!has_plan(folder) && !is_before_plan(folder))) check_folder(folder);
}

void clear_shared_folder(const fs::path& folder) {
  std::error_code error;
  if (has_work_folder(folder)) fs::remove(plan_path(work_folder(folder)), error);
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
