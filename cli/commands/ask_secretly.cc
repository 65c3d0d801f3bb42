#include "cli/commands/ask_secretly.h"

#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kLongestSecret = 256;
constexpr char kInterrupt = 3;  // Ctrl-C, when it makes no signal

// A terminal that shows nothing, for as long as this lives. Ctrl-C makes no signal then: it would leave it so.
class Unseen {
 public:
  explicit Unseen(int fd) : fd_(fd) {
    if (::tcgetattr(fd, &before_) != 0) return;
    termios unseen = before_;
    unseen.c_lflag &= ~static_cast<tcflag_t>(ECHO | ISIG);
    unseen.c_cc[VEOL] = kInterrupt;  // else it would wait for the line's end
    changed_ = ::tcsetattr(fd, TCSAFLUSH, &unseen) == 0;
  }
  ~Unseen() {
    if (changed_) ::tcsetattr(fd_, TCSAFLUSH, &before_);
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  bool changed() const { return changed_; }

 private:
  int fd_;
  termios before_{};
  bool changed_ = false;
};

// Byte by byte, so that nothing after the line is taken.
Result<void> read_line(std::string& line) {
  line.reserve(kLongestSecret);  // a string that grows leaves copies behind
  for (char c = 0;;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("stdin", errno);
    if (got == 0 || c == '\n') break;
    if (c == kInterrupt) return usage_error("given up");
    if (line.size() == kLongestSecret) return usage_error("the line is too long");
    line += c;
  }
  return line.empty() ? Result<void>(usage_error("nothing was typed")) : Result<void>();
}

}  // namespace

Result<void> ask_secretly(const std::string& prompt, std::string& line) {
  if (::isatty(STDIN_FILENO) == 0) return read_line(line);
  Result<void> done;
  {
    const Unseen unseen(STDIN_FILENO);
    if (!unseen.changed()) return usage_error("this terminal cannot hide what is typed: pipe the code into stdin");
    std::fputs(prompt.c_str(), stderr);
    done = read_line(line);
  }
  std::fputs("\n", stderr);
  return done;
}

}  // namespace dtrain::cli
