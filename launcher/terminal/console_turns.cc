#include "launcher/terminal/console_turns.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <new>

namespace dtrain::launcher {
namespace {

// Whoever had the turn has died within a line, which must not go on with ours.
void take_from_dead(pthread_mutex_t* mutex, int fd) {
  ::pthread_mutex_consistent(mutex);
  [[maybe_unused]] const auto n = ::write(fd, "\n", 1);
}

}  // namespace

Result<ConsoleTurns*> ConsoleTurns::make(bool one_file) {
  void* page = ::mmap(nullptr, sizeof(ConsoleTurns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return system_error("cannot map memory", errno);
  auto* turns = new (page) ConsoleTurns;
  turns->one_file_ = one_file;
  pthread_mutexattr_t shared;
  ::pthread_mutexattr_init(&shared);
  ::pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  ::pthread_mutex_init(&turns->out_, &shared);
  ::pthread_mutex_init(&turns->err_, &shared);
  ::pthread_mutexattr_destroy(&shared);
  return turns;
}

pthread_mutex_t* ConsoleTurns::of(int fd) { return fd == STDERR_FILENO && !one_file_ ? &err_ : &out_; }

ConsoleTurns::Turn::Turn(ConsoleTurns* turns, int fd) {
  if (turns == nullptr) return;
  mutex_ = turns->of(fd);
  if (::pthread_mutex_lock(mutex_) == EOWNERDEAD) take_from_dead(mutex_, fd);
}

ConsoleTurns::Turn::Turn(ConsoleTurns& turns, int fd, std::chrono::seconds patience) : mutex_(turns.of(fd)) {
  timespec until{};
  ::clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += patience.count();
  const int error = ::pthread_mutex_clocklock(mutex_, CLOCK_MONOTONIC, &until);
  if (error == EOWNERDEAD) take_from_dead(mutex_, fd);
  if (error == ETIMEDOUT) mutex_ = nullptr;
}

ConsoleTurns::Turn::~Turn() {
  if (mutex_ != nullptr) ::pthread_mutex_unlock(mutex_);
}

}  // namespace dtrain::launcher
