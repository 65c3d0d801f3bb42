#include "launcher/process/cgroup.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <vector>

#include "launcher/base/folders.h"
#include "launcher/base/small_file.h"

namespace dtrain::launcher {

namespace {

// mountinfo line: id parent major:minor root mount-point options ... - type source super-options
struct Mount {
  std::string root;
  std::string point;
};

std::optional<Mount> cgroup2_mount(const std::string& mountinfo) {
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos || line.compare(dash + 3, 8, "cgroup2 ") != 0) continue;
    std::istringstream words(line);
    std::string skip;
    Mount mount;
    words >> skip >> skip >> skip >> mount.root >> mount.point;
    return mount;
  }
  return std::nullopt;
}

int wait_for(pid_t pid) {
  int status = 0;
  if (pid < 0 || ::waitpid(pid, &status, 0) != pid) return errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

// Whether a child may move itself into the cgroup: that also needs rights on the common parent folder.
int errno_of_joining(int procs_fd) {
  const pid_t pid = ::vfork();
  if (pid == 0) ::_exit(::write(procs_fd, "0", 1) == 1 ? 0 : errno);
  return wait_for(pid);
}

}  // namespace

std::optional<std::string> parse_own_cgroup(const std::string& self_cgroup, std::string_view controller) {
  std::istringstream lines(self_cgroup);  // "5:cpu,cpuacct:/path"
  for (std::string line; std::getline(lines, line);) {
    const auto names_at = line.find(':');
    const auto path_at = names_at == std::string::npos ? names_at : line.find(':', names_at + 1);
    if (path_at == std::string::npos || line.compare(path_at, 2, ":/") != 0) continue;
    const std::string names = "," + line.substr(names_at + 1, path_at - names_at - 1) + ",";
    const std::string wanted = "," + std::string(controller) + ",";
    if (controller.empty() ? names == ",," : names.find(wanted) != std::string::npos) return line.substr(path_at + 1);
  }
  return std::nullopt;
}

std::optional<std::string> own_cgroup_folder(const std::string& mountinfo, const std::string& self_cgroup) {
  const auto mount = cgroup2_mount(mountinfo);
  auto path = parse_own_cgroup(self_cgroup, "");
  if (!mount || !path) return std::nullopt;
  // In a container the mount may show only a part of the tree.
  if (mount->root != "/" && (*path + "/").starts_with(mount->root + "/")) path->erase(0, mount->root.size());
  if (path->rfind("/..", 0) == 0) return std::nullopt;  // outside of what is mounted here
  return mount->point + (*path == "/" ? "" : *path);
}

namespace {

// The number of this process's PID namespace: a pid means nothing without it.
std::string pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? std::to_string(status.st_ino) : "0";
}

// When front, agent and guard of a job are all killed at once, nobody is left to empty and remove its cgroup: the next
// job does. Agent and guard hold the folder, so a folder that can be taken is a dead job's. What is not of this PID
// namespace is removed only if it is empty: it is a container's, or somebody else has given it that name.
void remove_leftovers(const std::string& own) {
  const std::string of_this_namespace = "-" + pid_namespace() + "-";
  std::error_code error;
  for (std::filesystem::directory_iterator it(own, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename();
    if (!name.starts_with("dtrain-")) continue;
    const UniqueFd taken = take_left_folder(it->path());
    if (!taken) continue;
    if (name.find(of_this_namespace) != std::string::npos) kill_cgroup(it->path());
    remove_cgroup(it->path());  // refused while something in it is still dying; then the job after this one does it
  }
}

}  // namespace

Result<JobCgroup> JobCgroup::create(const std::string& name) {
  const auto own = own_cgroup_folder(read_small_file("/proc/self/mountinfo"), read_small_file("/proc/self/cgroup"));
  if (!own) return Error{ErrorKind::system, "no cgroup v2 is mounted here"};
  JobCgroup cgroup;
  remove_leftovers(*own);
  std::string folder = *own + "/dtrain-" + name + "-" + pid_namespace() + "-" + std::to_string(::getpid());
  cgroup.held_ = make_held_folder(folder, 0755);
  if (!cgroup.held_) return system_error("cannot make the cgroup " + folder, errno);
  cgroup.folder_ = folder;
  cgroup.procs_.reset(::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  if (!cgroup.procs_ || ::access((folder + "/cgroup.kill").c_str(), W_OK) != 0) {
    const Error error = system_error("cannot use the cgroup " + folder, errno);
    cgroup.remove();
    return error;
  }
  if (open_to_clone_into(folder)) return cgroup;
  if (const int error = errno_of_joining(cgroup.procs_.get())) {
    cgroup.remove();
    return system_error("cannot move processes into the cgroup " + folder, error);
  }
  return cgroup;
}

bool JobCgroup::kill() const { return exists() && kill_cgroup(folder_); }

bool JobCgroup::remove() {
  if (!exists() || !remove_cgroup(folder_)) return !exists();
  folder_.clear();
  return true;
}

UniqueFd open_to_clone_into(const std::string& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const pid_t pid = clone_into_cgroup(fd.get(), CLONE_VFORK, nullptr);
  if (pid == 0) ::_exit(0);
  return wait_for(pid) == 0 ? std::move(fd) : UniqueFd();
}

pid_t clone_into_cgroup(int folder_fd, uint64_t flags, int* pidfd) {
  clone_args args{};
  args.flags = flags | CLONE_INTO_CGROUP;
  args.pidfd = reinterpret_cast<uintptr_t>(pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = uint64_t(folder_fd);
  return pid_t(::syscall(SYS_clone3, &args, sizeof args));
}

bool kill_cgroup(const std::string& folder) {
  UniqueFd fd(::open((folder + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), "1", 1) == 1;
}

// A worker may have made cgroups inside (a dtrain of its own, say): children first.
bool remove_cgroup(const std::string& folder) {
  if (::rmdir(folder.c_str()) == 0 || errno == ENOENT) return true;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) remove_cgroup(it->path());
  }
  return ::rmdir(folder.c_str()) == 0 || errno == ENOENT;
}

}  // namespace dtrain::launcher
