// A worker for run.py, under any launcher that sets RANK, WORLD_SIZE and TORCHELASTIC_RESTART_COUNT:
//   wait                        until it is killed
//   lines COUNT                 print COUNT lines of 100 bytes, which differ by rank and number
//   crash FILE DEATHS           rank 0 dies by SIGKILL in each of the first DEATHS rounds, the others end on SIGTERM
//   crash-stubborn FILE DEATHS  the same, but the others ignore SIGTERM
// crash adds lines `EVENT ROUND RANK NANOSECONDS` (CLOCK_MONOTONIC) to FILE: main, term, die. FILE.ready is a FIFO by
// which the others tell rank 0 that they are ready to be stopped.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

constexpr size_t kLineSize = 100;
constexpr long kLinesInABlock = 640;

int number_in_env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : 0;
}

long long now_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

bool write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n <= 0) return false;
    data += n;
    size -= size_t(n);
  }
  return true;
}

int print_lines(long count) {
  const int rank = number_in_env("RANK");
  std::string block;
  for (long i = 0; i < count; ++i) {
    char head[48];
    const int size = std::snprintf(head, sizeof head, "rank %d line %ld ", rank, i);
    block.append(head, size_t(size));
    block.append(kLineSize - 1 - size_t(size), char('a' + i % 26));
    block += '\n';
    if ((i + 1) % kLinesInABlock != 0 && i + 1 != count) continue;
    if (!write_all(1, block.data(), block.size())) return 1;
    block.clear();
  }
  return 0;
}

class Crash {
 public:
  Crash(const char* file, int deaths, bool stubborn)
      : log_(::open(file, O_WRONLY | O_CREAT | O_APPEND, 0644)),
        ready_(::open((std::string(file) + ".ready").c_str(), O_RDWR)),
        deaths_(deaths),
        stubborn_(stubborn) {}

  int run(long long started) {
    if (log_ < 0 || ready_ < 0) return 2;
    stamp("main", started);
    const bool last = round_ >= deaths_;
    return rank_ == 0 ? die(last) : be_stopped(last);
  }

 private:
  void stamp(const char* event, long long at) const {
    char line[96];
    const int size = std::snprintf(line, sizeof line, "%s %d %d %lld\n", event, round_, rank_, at);
    write_all(log_, line, size_t(size));
  }

  int die(bool last) const {
    char c;
    for (int i = 1; i < world_; ++i) {
      if (::read(ready_, &c, 1) != 1) return 2;
    }
    if (last) return 0;
    // Not in step with a launcher that polls ten times a second, and with the launcher at rest.
    const timespec pause{0, 20000000 + now_ns() % 100000000};
    ::nanosleep(&pause, nullptr);  // tidy: allow sleep, because the pause is what is measured after
    stamp("die", now_ns());
    ::raise(SIGKILL);
    return 2;
  }

  int be_stopped(bool last) const {
    sigset_t term;
    ::sigemptyset(&term);
    ::sigaddset(&term, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &term, nullptr);
    if (!write_all(ready_, "r", 1)) return 2;
    if (last) return 0;
    ::sigwaitinfo(&term, nullptr);
    stamp("term", now_ns());
    while (stubborn_) ::pause();
    return 0;
  }

  const int log_;
  const int ready_;
  const int deaths_;
  const bool stubborn_;
  const int rank_ = number_in_env("RANK");
  const int world_ = number_in_env("WORLD_SIZE");
  const int round_ = number_in_env("TORCHELASTIC_RESTART_COUNT");
};

}  // namespace

int main(int argc, char** argv) {
  const long long started = now_ns();
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "wait") {
    for (;;) ::pause();
  }
  if (what == "lines" && argc == 3) return print_lines(std::atol(argv[2]));
  if ((what == "crash" || what == "crash-stubborn") && argc == 4) {
    return Crash(argv[2], std::atoi(argv[3]), what == "crash-stubborn").run(started);
  }
  std::fprintf(stderr, "bench_worker: wait | lines COUNT | crash FILE DEATHS | crash-stubborn FILE DEATHS\n");
  return 2;
}
