#include "cli/children/ask_child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "cli/children/read_until.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {
namespace {

using std::chrono::steady_clock;
constexpr std::size_t kLongestAnswer = std::size_t{1} << 20;

[[noreturn]] void answer(const std::function<std::string()>& work, int fd, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const std::string text = work();
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t size = write(fd, text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    done += static_cast<std::size_t>(size);
  }
  _exit(0);
}

}  // namespace

ChildAnswer ask_child(const std::function<std::string()>& work, std::chrono::milliseconds patience) {
  using End = ChildAnswer::End;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {End::not_started, {}};
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return {End::not_started, {}};
  if (child == 0) answer(work, write_end.get(), parent);
  write_end.reset();
  PipeText said = read_until(read_end.get(), steady_clock::now() + patience, kLongestAnswer);
  if (!said.complete) kill(child, SIGKILL);
  int status = 0;
  // One that hangs in the kernel cannot be waited for; init reaps it when it wakes up.
  waitpid(child, &status, said.complete ? 0 : WNOHANG);
  if (!said.complete) return {End::late, {}};
  if (status != 0) return {End::failed, {}};
  return {End::answered, std::move(said.text)};
}

}  // namespace dtrain::cli
