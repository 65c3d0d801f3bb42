#include "launcher/log_tree.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace dtrain::launcher {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameLimit = 200;  // of a run id within a file name; most file systems allow 255 in all
constexpr int kNameTries = 100;

// The run id as one path component.
std::string as_file_name(std::string run_id) {
  for (char& c : run_id) {
    if (c == '/' || c == '\0') c = '_';
  }
  return run_id.substr(0, kNameLimit);
}

std::string random8() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";
  unsigned char bytes[8] = {};
  // 40 bits of chance; on failure the name is still tried for being free.
  [[maybe_unused]] ssize_t n = ::getrandom(bytes, sizeof bytes, 0);
  std::string name;
  for (unsigned char byte : bytes) name += kLetters[byte % kLetters.size()];
  return name;
}

Error no_folder(const std::string& path, int error) {
  return system_error(fmt::format("cannot make the log folder {} (choose another with --log-dir)", path), error);
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

// Make a folder of a name that was free: `stem` and eight random characters.
Result<std::string> make_fresh_folder(const std::string& stem) {
  for (int attempt = 0; attempt < kNameTries; ++attempt) {
    std::string path = stem + random8();
    if (::mkdir(path.c_str(), 0700) == 0) return path;
    if (errno != EEXIST) return no_folder(path, errno);
  }
  return no_folder(stem + "*", EEXIST);
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
  std::string base = spec.log_dir;
  if (base.empty()) {
    const char* tmp = std::getenv("TMPDIR");
    auto fresh = make_fresh_folder((tmp && *tmp ? std::string(tmp) : "/tmp") + "/dtrain_");
    if (!fresh) return fresh.error();
    base = tree.temporary_base_ = *fresh;
  } else {
    std::error_code error;
    base = fs::absolute(base, error).string();
    if (auto made = make_folders(base); !made) return made.error();
  }
  auto job = make_fresh_folder(base + "/" + as_file_name(spec.run_id) + "_");
  if (!job) return job.error();
  tree.path_ = *job;
  return tree;
}

Result<WorkerFiles> LogTree::open_worker(int restart_count, int local_rank, Streams streams) {
  WorkerFiles files;
  if (path_.empty()) return files;
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

bool remove_empty_folders(const std::string& folder) {
  bool empty = true;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    bool is_folder = it->symlink_status(error).type() == fs::file_type::directory;
    if (!is_folder || !remove_empty_folders(it->path().string())) empty = false;
  }
  return empty && ::rmdir(folder.c_str()) == 0;
}

void LogTree::remove_if_empty() const {
  if (!temporary_base_.empty()) remove_empty_folders(temporary_base_);
}

}  // namespace dtrain::launcher
