// Counts GPUs through NVML in a child process.
#include "cli/gpus.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

constexpr int kPatience_ms = 20000;

// nvmlInit_v2() and nvmlDeviceGetCount_v2(unsigned*), by hand: the header is not needed for two functions.
int ask_nvml(void* library) {
  auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  auto get_count = reinterpret_cast<int (*)(unsigned*)>(dlsym(library, "nvmlDeviceGetCount_v2"));
  unsigned count = 0;
  if (init == nullptr || get_count == nullptr || init() != 0 || get_count(&count) != 0) return -1;
  return static_cast<int>(count);
}

// -1: NVML is there but did not answer.
int count_in_child(void* library) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    int count = ask_nvml(library);
    ssize_t written = write(write_end.get(), &count, sizeof count);
    _exit(written == sizeof count ? 0 : 1);
  }
  write_end.reset();
  pollfd ready = {read_end.get(), POLLIN, 0};
  int count = -1;
  if (poll(&ready, 1, kPatience_ms) != 1 || read(read_end.get(), &count, sizeof count) != sizeof count) count = -1;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return count;
}

int count_in_proc() {
  DIR* dir = opendir("/proc/driver/nvidia/gpus");
  if (dir == nullptr) return 0;
  int count = 0;
  while (const dirent* entry = readdir(dir)) count += entry->d_name[0] != '.';
  closedir(dir);
  return count;
}

}  // namespace

int driver_gpu_count() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return count_in_proc();
  int count = count_in_child(library);
  dlclose(library);
  return count >= 0 ? count : count_in_proc();
}

}  // namespace dtrain::cli
