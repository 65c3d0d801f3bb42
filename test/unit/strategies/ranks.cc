// See ranks.h.
#include "test/unit/strategies/ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "test/support/catch.h"

#ifdef __SANITIZE_THREAD__
// A race ends the rank that has it, which the test then sees.
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }
#endif

namespace dtrain::test {
namespace {

using Clock = std::chrono::steady_clock;

// Than without sanitizers.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSlower = 4;
#else
constexpr int kSlower = 1;
#endif

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const auto n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void run_child(int fd, int rank, const std::function<std::string(int)>& body) {
  ::signal(SIGPIPE, SIG_IGN);
  try {
    write_all(fd, "." + body(rank));
  } catch (const std::exception& error) {
    write_all(fd, std::string("!") + error.what());
  }
  ::_exit(0);
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
  RankOutcome outcome;
};

bool is_stopped(const Child& child) {
  siginfo_t info{};
  // A child that was told of already is told of again: it is not reaped, and its state not taken note of.
  return ::waitid(P_PID, static_cast<id_t>(child.pid), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == child.pid;
}

// False when the child's end of the pipe has closed.
bool read_some(Child& child) {
  char buffer[4096];
  const auto n = ::read(child.fd, buffer, sizeof(buffer));
  if (n > 0) child.outcome.said.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

void reap(Child& child, Clock::time_point start) {
  int status = 0;
  ::waitpid(child.pid, &status, 0);
  ::close(child.fd);
  child.outcome.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  child.outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::string& said = child.outcome.said;
  // A sanitizer ends a process with another code, or before it said anything.
  child.outcome.exited = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !said.empty();
  child.outcome.threw = !said.empty() && said[0] == '!';
  if (!said.empty()) said.erase(0, 1);
}

// Read until all have ended, or are stopped or late and killed.
void drain(std::vector<Child>& children, Clock::time_point start, Clock::time_point deadline) {
  constexpr int kLookAround = 20;  // milliseconds: nothing tells of a child that stops
  std::vector<Child*> left;
  for (Child& child : children) left.push_back(&child);
  while (!left.empty()) {
    std::vector<pollfd> entries;
    for (const Child* child : left) entries.push_back({child->fd, POLLIN, 0});
    ::poll(entries.data(), entries.size(), kLookAround);
    std::vector<Child*> still;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (entries[i].revents == 0 || read_some(*left[i])) {
        still.push_back(left[i]);
      } else {
        reap(*left[i], start);
      }
    }
    left = std::move(still);
    const bool stopped = std::all_of(left.begin(), left.end(), [](const Child* child) { return is_stopped(*child); });
    if (!stopped && Clock::now() < deadline) continue;
    for (Child* child : left) {
      ::kill(child->pid, SIGKILL);
      reap(*child, start);
    }
    return;
  }
}

}  // namespace

std::vector<RankOutcome> run_ranks(int ranks, const std::function<std::string(int)>& body, std::chrono::seconds limit) {
  std::fflush(nullptr);
  const auto start = Clock::now();
  std::vector<Child> children(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      run_child(ends[1], r, body);
    }
    ::close(ends[1]);
    children[static_cast<std::size_t>(r)].pid = pid;
    children[static_cast<std::size_t>(r)].fd = ends[0];
  }
  drain(children, start, start + kSlower * limit);
  std::vector<RankOutcome> outcomes;
  for (const Child& child : children) outcomes.push_back(child.outcome);
  return outcomes;
}

void require_all_returned(const std::vector<RankOutcome>& outcomes) {
  for (std::size_t r = 0; r < outcomes.size(); ++r) {
    INFO("rank " << r << " signal " << outcomes[r].signal << " said: " << outcomes[r].said);
    REQUIRE(outcomes[r].exited);
    REQUIRE_FALSE(outcomes[r].threw);
  }
}

struct SharedBoard::Memory {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int used;
  struct {
    char key[64];
    char value[4096];
  } entries[256];
};

SharedBoard::SharedBoard() {
  void* memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  memory_ = static_cast<Memory*>(memory);
  pthread_mutexattr_t mutex;
  ::pthread_mutexattr_init(&mutex);
  ::pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  ::pthread_mutex_init(&memory_->mutex, &mutex);
  pthread_condattr_t condition;
  ::pthread_condattr_init(&condition);
  ::pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  ::pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);  // the clock of Deadline
  ::pthread_cond_init(&memory_->changed, &condition);
}

SharedBoard::~SharedBoard() { ::munmap(memory_, sizeof(Memory)); }

void SharedBoard::add(const std::string& key, const std::string& value) {
  if (memory_->used == static_cast<int>(std::size(memory_->entries)) || key.size() >= sizeof(memory_->entries[0].key) ||
      value.size() >= sizeof(memory_->entries[0].value)) {
    std::fprintf(stderr, "SharedBoard is too small for %s\n", key.c_str());
    std::abort();
  }
  auto& entry = memory_->entries[memory_->used++];
  std::snprintf(entry.key, sizeof(entry.key), "%s", key.c_str());
  std::snprintf(entry.value, sizeof(entry.value), "%s", value.c_str());
  ::pthread_cond_broadcast(&memory_->changed);
}

const char* SharedBoard::find(const std::string& key) const {
  for (int i = memory_->used; i-- > 0;) {  // the last that was put
    if (key == memory_->entries[i].key) return memory_->entries[i].value;
  }
  return nullptr;
}

void SharedBoard::put(const std::string& key, const std::string& value) {
  ::pthread_mutex_lock(&memory_->mutex);
  add(key, value);
  ::pthread_mutex_unlock(&memory_->mutex);
}

std::string SharedBoard::first(const std::string& key, const std::string& value) {
  ::pthread_mutex_lock(&memory_->mutex);
  if (find(key) == nullptr) add(key, value);
  std::string held = find(key);
  ::pthread_mutex_unlock(&memory_->mutex);
  return held;
}

std::string SharedBoard::take(const std::string& key, Deadline deadline) {
  ::pthread_mutex_lock(&memory_->mutex);
  const auto nanoseconds = std::chrono::nanoseconds(deadline.time_since_epoch()).count();
  const timespec until{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  const char* value = nullptr;
  int waited = 0;
  while ((value = find(key)) == nullptr && waited == 0)
    waited = ::pthread_cond_timedwait(&memory_->changed, &memory_->mutex, &until);
  std::string held = value == nullptr ? "" : value;
  ::pthread_mutex_unlock(&memory_->mutex);
  if (value == nullptr) throw std::runtime_error("nobody put " + key);
  return held;
}

std::vector<std::string> shared_memory_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dtrain::test
