// Tested by test/process/data/nodes_test.py.
#include "data/together/task_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "data/os/host_name.h"
#include "data/rows/parallel.h"
#include "data/shared/shared_files.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr TaskTime kTaskLook = std::chrono::milliseconds(50);
constexpr std::string_view kDone = ".done";

TaskTime task_now() {
  return std::chrono::duration_cast<TaskTime>(std::chrono::steady_clock::now().time_since_epoch());
}

std::string beside_task(const std::string& folder, std::size_t task) { return fmt::format("{}/{:05}", folder, task); }

std::string own_name() { return fmt::format("{} (process {})", host_name(""), ::getpid()); }

// `seen` gets the name of each result that is there. Returns why it cannot be said.
template <class Seen>
std::error_code for_results(const std::string& folder, const Seen& seen) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error))
    if (const std::string name = at->path().filename().string(); name.ends_with(kDone)) seen(name);
  return error;
}

void see_results(const std::string& folder, std::size_t count, TaskCore& core) {
  const std::error_code error = for_results(folder, [&](const std::string& name) {
    std::size_t task = count;
    std::from_chars(name.data(), name.data() + name.size(), task);
    if (task < count) core.done(task, task_now());
  });
  if (error) throw_of_path(folder, error.value());
  core.looked();
}

[[noreturn]] void fail_late(const std::string& folder, const std::string& phase, std::size_t task, TaskTime patience) {
  const std::string holder = read_shared(beside_task(folder, task) + ".lock").value_or("");
  throw DataError(
      fmt::format("dtrain: {}: no process has gone on with '{}' for {} s, and part {} is with {}; end that "
                  "process, and start again",
                  folder, phase, std::chrono::duration_cast<std::chrono::seconds>(patience).count(), task,
                  holder.empty() ? "a process that does not say its name" : holder));
}

// When a file was changed, by the clock of the host that has it: good for comparing it with itself. 0: no such file.
std::int64_t changed_ns(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) != 0) return 0;
  return std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

}  // namespace

// Of what others have in work: whether they go on.
class TaskFolder::Watch {
 public:
  Watch(std::string folder, std::size_t count, TaskTime every)
      : folder_(std::move(folder)), seen_(count), every_(every) {}

  void look(TaskCore& core, TaskTime now) {
    if (now - last_ < every_) return;
    last_ = now;
    for (std::size_t task = 0; task < seen_.size(); ++task) {
      if (core.is_done(task)) continue;
      const std::int64_t changed = changed_ns(beside_task(folder_, task) + ".lock");
      if (changed != seen_[task]) core.alive(now);
      seen_[task] = changed;
    }
  }

 private:
  const std::string folder_;
  std::vector<std::int64_t> seen_;
  const TaskTime every_;
  TaskTime last_{};
};

bool TaskFolder::try_task(const std::string& beside, std::size_t number, const Task& task) const {
  const std::string result = beside + std::string(kDone);
  const auto lock = try_lock(beside + ".lock", Lock::exclusive);
  if (!lock) return false;
  if (is_there(result)) return true;
  const std::string name = own_name();
  if (::ftruncate(lock->get(), 0) != 0 || ::pwrite(lock->get(), name.data(), name.size(), 0) < 0)
    throw_of_path(beside + ".lock", errno);
  TaskTime touched = task_now();
  const std::string made = task(number, [&] {
    if (task_now() - touched < touch_every()) return;
    touched = task_now();
    if (::futimens(lock->get(), nullptr) != 0) throw_of_path(beside + ".lock", errno);
  });
  make_once(
      draft(), result, [&](const std::string& file) { write_all(file, made); }, Durable::no);
  return true;
}

void TaskFolder::share(const std::string& phase, std::size_t count, std::size_t threads, const Task& task,
                       const Take& take) {
  const std::string folder = folder_ + "/" + phase;
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) throw_of_path(folder, error.value());
  TaskCore core(count, seat_.rank * count / std::max<std::size_t>(seat_.count, 1), patience_, task_now());
  Watch watch(folder, count, touch_every());
  see_results(folder, count, core);
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false, looking = false;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    for (;;) {
      const TaskStep step = core.next(task_now());
      if (stopped || step.what == TaskStep::What::finished) return;
      check_others();
      if (step.what == TaskStep::What::late) fail_late(folder, phase, core.missing().value_or(0), patience_);
      if (step.what == TaskStep::What::look) {
        const bool looks = !std::exchange(looking, true);  // one thread does for all
        changed.wait_for(lock, kTaskLook);
        if (!looks) continue;
        see_results(folder, count, core);
        watch.look(core, task_now());
        looking = false;
        continue;
      }
      lock.unlock();
      const bool done = try_task(beside_task(folder, step.task), step.task, task);
      lock.lock();
      if (!done) {  // nothing that another thread waits for
        core.held(step.task);
        continue;
      }
      core.done(step.task, task_now());
      changed.notify_all();
    }
  };
  for_each_task(std::max<std::size_t>(threads, 1), std::max<std::size_t>(threads, 1), [&](std::size_t) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex);
      stopped = true;
      changed.notify_all();
      throw;
    }
  });
  for (std::size_t number = 0; number < count; ++number) {
    const std::string path = beside_task(folder, number) + std::string(kDone);
    const auto result = read_shared(path);
    if (!result) throw_of_path(path, ENOENT);
    take(number, *result);
  }
}

void TaskFolder::fail(const std::string& why) const { link_content(folder_, folder_ + "/failed", why, Durable::no); }

std::optional<std::size_t> TaskFolder::results(const std::string& phase) const {
  std::size_t count = 0;
  if (for_results(folder_ + "/" + phase, [&](const std::string&) { ++count; })) return std::nullopt;
  return count;
}

void TaskFolder::check_others() const {
  if (is_there(folder_ + "/failed")) throw OtherFailed{};
}

TaskTime TaskFolder::touch_every() const { return std::min<TaskTime>(patience_ / 8, std::chrono::seconds(1)); }

std::string TaskFolder::draft() const { return folder_ + "/" + draft_ending(); }

}  // namespace dtrain::data
