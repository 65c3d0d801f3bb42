// See progress.h.
#include "examples/digits/progress.h"

#include <unistd.h>

#include <cstdio>
#include <string>

namespace digits {
namespace {

constexpr int kBarWidth = 30;
constexpr std::chrono::milliseconds kRedraw{50};

std::string bar(double done) {
  const auto filled = static_cast<std::size_t>(done * kBarWidth);
  std::string text(filled, '#');
  text.resize(kBarWidth, '.');
  return text;
}

}  // namespace

Progress::Progress(int epochs, std::int64_t steps_per_epoch, bool quiet)
    : epochs_(epochs), steps_per_epoch_(steps_per_epoch), quiet_(quiet), terminal_(::isatty(STDOUT_FILENO) == 1) {}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::step(int epoch, std::int64_t step, double loss) {
  if (quiet_ || !terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < kRedraw) return;
  drawn_ = now;
  const double done = (epoch * steps_per_epoch_ + step + 1.0) / static_cast<double>(epochs_ * steps_per_epoch_);
  std::printf("\r[%s] epoch %d/%d  loss %.4f  %.1f s", bar(done).c_str(), epoch + 1, epochs_, loss, seconds());
  std::fflush(stdout);
}

void Progress::epoch_done(int epoch, double mean_loss) {
  if (quiet_ || terminal_) return;
  std::printf("epoch %d/%d  loss %.4f  %.1f s\n", epoch + 1, epochs_, mean_loss, seconds());
  std::fflush(stdout);
}

void Progress::finish(double train_loss, double test_accuracy) {
  if (quiet_) return;
  if (terminal_) {
    std::printf("\r[%s] epoch %d/%d  loss %.4f  %.1f s\n", bar(1.0).c_str(), epochs_, epochs_, train_loss, seconds());
  }
  std::printf("loss %.6f  test accuracy %.2f %%  %.1f s\n", train_loss, 100.0 * test_accuracy, seconds());
  std::fflush(stdout);
}

}  // namespace digits
