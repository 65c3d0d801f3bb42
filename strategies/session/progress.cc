// See dtrain/progress.h.
#include "dtrain/progress.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <nlohmann/json.hpp>

#include "dtrain/worker_env.h"
#include "strategies/session/progress_text.h"

namespace dtrain {
namespace {

const std::string& progress_file() {
  static const std::string path = process_env()("DTRAIN_PROGRESS_FILE").value_or("");
  return path;
}

std::atomic<bool> g_program_reports{false};

// In place, in one write: whoever reads half of it reads it again. A second file that takes the place of the first
// would be left behind by a process that is killed meanwhile.
void write_progress(const std::string& text) {
  const int fd = ::open(progress_file().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  while (::write(fd, text.data(), text.size()) < 0 && errno == EINTR) {
  }
  ::close(fd);
}

void report(const Progress& progress, bool anew) {
  static std::mutex mutex;
  static ProgressPace pace;
  const std::lock_guard lock(mutex);
  if (anew) pace = {};
  if (pace.due(progress, std::chrono::steady_clock::now())) write_progress(progress_text(progress));
}

}  // namespace

std::string progress_text(const Progress& progress) {
  nlohmann::ordered_json root;
  root["step"] = progress.step;
  if (progress.steps) root["steps"] = *progress.steps;
  if (progress.seconds_left) root["seconds_left"] = *progress.seconds_left;
  if (!progress.metrics.empty()) {
    auto& metrics = root["metrics"] = nlohmann::ordered_json::object();
    for (const auto& [name, value] : progress.metrics) metrics[name] = value;
  }
  return root.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

bool ProgressPace::due(const Progress& progress, Time now) {
  const bool last = progress.steps && progress.step >= *progress.steps;
  if (now < next_ && !last) return false;
  next_ = now + kEvery;
  return true;
}

void report_progress(const Progress& progress) {
  if (progress_file().empty()) return;
  // What counted steps before has no say in when the program's own word is written.
  report(progress, !g_program_reports.exchange(true));
}

void detail::step_done() {
  static std::atomic<std::int64_t> steps{0};
  if (progress_file().empty()) return;
  const std::int64_t step = ++steps;
  if (!g_program_reports) report({.step = step}, false);
}

}  // namespace dtrain
