#include "launcher/logs/log_tree.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "launcher/base/folders.h"
#include "launcher/base/private_folder.h"
#include "launcher/logs/temporary_folders.h"

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameLimit = 200;  // of a run id within a file name; most file systems allow 255 in all

// The run id as one path component.
std::string as_file_name(std::string run_id) {
  for (char& c : run_id) {
    if (c == '/' || c == '\0') c = '_';
  }
  return run_id.substr(0, kNameLimit);
}

// Make the folder and its missing parents.
Result<void> make_folders(const std::string& path) {
  for (size_t slash = 1; slash != std::string::npos;) {
    slash = path.find('/', slash + 1);
    std::string part = path.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) == 0) continue;
    int error = errno;
    struct stat status {};
    bool exists = ::stat(part.c_str(), &status) == 0;
    if (exists && !S_ISDIR(status.st_mode)) return no_folder(part, ENOTDIR);
    if (!exists) return no_folder(part, error);
  }
  return {};
}

// The job's folder in the one that the user named.
Result<std::string> make_named(const std::string& log_dir, const std::string& run_id) {
  std::error_code error;  // without a working folder a relative name leads nowhere
  const std::string base = fs::absolute(log_dir, error).string();
  if (error) return no_folder(log_dir, error.value());
  if (auto made = make_folders(base); !made) return made.error();
  return make_fresh_folder(base + "/" + as_file_name(run_id) + "_");
}

// Make a folder for this worker that no earlier round has used. attempt: the suffix, from where the search begins.
Result<std::string> make_worker_folder(const std::string& job, int restart_count, int local_rank, int& attempt) {
  for (;; ++attempt) {
    std::string folder = fmt::format("{}/attempt_{}", job, restart_count);
    if (attempt > 1) folder += fmt::format("_{}", attempt);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return no_folder(folder, errno);
    folder += fmt::format("/{}", local_rank);
    if (::mkdir(folder.c_str(), 0700) == 0) return folder;
    if (errno != EEXIST) return no_folder(folder, errno);
  }
}

}  // namespace

Result<UniqueFd> create_log_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return system_error("cannot make the log file " + path, errno);
  return fd;
}

Result<LogTree> LogTree::create(const JobSpec& spec) {
  LogTree tree;
  if (spec.log_dir == "/dev/null") return tree;
  if (!spec.log_dir.empty()) {
    auto job = make_named(spec.log_dir, spec.run_id);
    if (!job) return Error{ErrorKind::usage, job.error().message, job.error().errno_value};
    tree.path_ = *job;
    return tree;
  }
  const std::string refused = tree.make_temporary(spec.run_id);
  const bool asked = spec.tee.any() || spec.redirects.any();
  if (tree.path_.empty() && asked)
    return Error{ErrorKind::system, fmt::format("no place for log files: {}; name one with --log-dir", refused)};
  if (tree.path_.empty())
    tree.notes_.push_back(fmt::format("no place for temporary files: {}; workers have no error file", refused));
  else if (!refused.empty())
    tree.notes_.push_back(fmt::format("no place for temporary files: {}; using {}", refused,
                                      fs::path(tree.temporary_base_).parent_path().string()));
  return tree;
}

// In the first place that takes the folders. Returns those that did not, and why.
std::string LogTree::make_temporary(const std::string& run_id) {
  std::string refused;
  for (const std::string& place : temporary_folders()) {
    auto fresh = make_temporary_folder(place);
    auto job =
        fresh ? make_fresh_folder(fresh->path + "/" + as_file_name(run_id) + "_") : Result<std::string>(fresh.error());
    if (job) {
      temporary_base_ = fresh->path;
      held_ = std::move(fresh->held);
      path_ = *job;
      break;
    }
    if (fresh) ::rmdir(fresh->path.c_str());
    refused += fmt::format("{}{} ({})", refused.empty() ? "" : ", ", place, std::strerror(job.error().errno_value));
  }
  return refused;
}

Result<WorkerFiles> LogTree::open_worker(int restart_count, int local_rank, Streams streams) {
  if (path_.empty()) return WorkerFiles{};
  auto files = make_worker(restart_count, local_rank, streams);
  if (files || streams != Streams::none) return files;
  if (!std::exchange(said_no_error_file_, true))
    notes_.push_back("workers have no error file: " + files.error().message);
  return WorkerFiles{};
}

Result<WorkerFiles> LogTree::make_worker(int restart_count, int local_rank, Streams streams) {
  WorkerFiles files;
  if (restart_count != last_.restart_count) last_ = {restart_count, 1};
  auto folder = make_worker_folder(path_, restart_count, local_rank, last_.attempt);
  if (!folder) return folder.error();
  files.attempt = folder->substr(0, folder->rfind('/'));
  files.paths.error_file = *folder + "/error.json";
  if (has(streams, Streams::out)) {
    files.paths.out = *folder + "/stdout.log";
    auto file = create_log_file(files.paths.out);
    if (!file) return file.error();
    files.out = std::move(*file);
  }
  if (has(streams, Streams::err)) {
    files.paths.err = *folder + "/stderr.log";
    auto file = create_log_file(files.paths.err);
    if (!file) return file.error();
    files.err = std::move(*file);
  }
  return files;
}

void LogTree::remove_if_empty() {
  held_.reset();
  if (!temporary_base_.empty()) remove_empty_folders(temporary_base_);
}

}  // namespace dtrain::launcher
