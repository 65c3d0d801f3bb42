// The least that a launcher can do: `bench_fork_exec N PROGRAM [ARG...]` forks N children, executes PROGRAM in each,
// and waits for all. Nothing is watched, contained, prefixed or reported.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int count = std::atoi(argv[1]);
  for (int i = 0; i < count; ++i) {
    const pid_t pid = ::fork();
    if (pid < 0) return 1;
    if (pid == 0) {
      ::execvp(argv[2], argv + 2);
      ::_exit(127);
    }
  }
  int failed = 0;
  for (int status = 0; ::wait(&status) > 0;) failed += status != 0;
  return failed == 0 ? 0 : 1;
}
