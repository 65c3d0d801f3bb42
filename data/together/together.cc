// Tested by test/process/data/nodes_test.py.
#include "data/together/together.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "data/arrow/arrow_calls.h"
#include "data/base/packed.h"
#include "data/os/host_name.h"
#include "data/recipe/limits.h"
#include "data/shared/shared_files.h"
#include "data/together/left_build.h"
#include "data/together/phase_watch.h"
#include "data/together/plan_file.h"
#include "data/together/shared_job.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

constexpr int kSightLookMs = 50;
constexpr std::chrono::milliseconds kProgressLook{500};
constexpr std::chrono::seconds kAfterFailure{3};  // for the others to see it
constexpr std::chrono::seconds kAfterWhole{30};   // for the others to read all results

// An error of the process that has failed, as that has thrown it.
std::string failure_text(const std::string& recipe_key, const std::string& what) {
  Packer packer;
  packer.put_text(recipe_key);
  packer.put_text(what);
  return packer.take();
}

[[noreturn]] void throw_failure(const std::string& text) {
  Unpacker unpacker(text);
  const std::string key(unpacker.text()), what(unpacker.text());
  if (key.empty()) throw DataError(what);
  throw RecipeError(key, what.substr(std::min(what.size(), ("dtrain: " + key + ": ").size())));
}

nlohmann::json await_plan(const fs::path& folder, std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (auto plan = read_plan(work_folder(folder))) return *std::move(plan);
    if (std::chrono::steady_clock::now() > until)
      throw DataError(
          fmt::format("dtrain: backend.cache_dir: the node {} does not see {}, where the nodes share their "
                      "work; name a folder that all nodes have",
                      host_name(""), folder.string()));
    ::poll(nullptr, 0, kSightLookMs);
  }
}

// Progress as others make it, or this process beside them.
class ProgressShown {
 public:
  ProgressShown(SharedJob& job, const fs::path& work, const ProgressSink& sink)
      : tasks_(work.string(), Seat{}), watch_(job.phases(), job.passes()), sink_(sink) {}

  void look() {
    if (!sink_) return;
    if (const auto now = watch_.look([this](const std::string& phase) { return tasks_.results(phase); })) sink_(*now);
  }

  // `work` goes on in this process. No other call meanwhile.
  void look_during(const std::function<void()>& work) {
    if (!sink_) return work();
    const std::jthread looks([this](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any none;
      for (std::unique_lock lock(mutex); !stop.stop_requested(); look())
        none.wait_for(lock, stop, kProgressLook, [] { return false; });
    });
    work();
  }

 private:
  const TaskFolder tasks_;
  PhaseWatch watch_;
  const ProgressSink& sink_;
};

ProcessReport finished(std::unique_ptr<SharedJob> job, const fs::path& folder, ProgressShown& shown) {
  const fs::path work = work_folder(folder);
  shown.look_during([&] { job->run(); });
  // From here on the parts do not have the names by which others would find them.
  if (::unlink(plan_path(work).c_str()) != 0) throw_of_path(plan_path(work).string(), errno);
  ProcessReport report = job->finish();
  const std::set<fs::path> result = job->result(report);
  job.reset();  // closes its files: NFS gives an open file that is removed another name, and its folder stays
  // A worker that is cut off finds nothing from here on: no draft to which it could give a name in the result.
  std::error_code error;
  fs::rename(work, folder / (work.filename().string() + "." + random_name()), error);
  if (error) fail_at(work.string(), error.message());
  keep_only(folder, result);
  return report;
}

// Whether the workers have had the time to see that nothing is left for them.
std::function<bool()> end_of_patience(const fs::path& work) {
  using Time = std::chrono::steady_clock;
  return [work, since = std::optional<Time::time_point>()]() mutable {
    const bool failed = is_there((work / "failed").string());
    if (!failed && !is_there((work / "whole").string())) return false;
    if (!since) since = Time::now();
    return Time::now() - *since >= (failed ? kAfterFailure : kAfterWhole);
  };
}

void throw_if_failed(const fs::path& work) {
  if (const auto why = read_shared((work / "failed").string())) throw_failure(*why);
}

void let_workers_do_it(const fs::path& folder, ProgressShown& shown, const TogetherOptions& options,
                       const StartWorkers& start) {
  const fs::path work = work_folder(folder);
  const auto is_whole = [&] { return is_there((work / "whole").string()); };
  if (is_whole()) return;
  try {
    start(folder, [&, must_end = end_of_patience(work)] {
      shown.look();
      return must_end();
    });
  } catch (...) {
    throw_if_failed(work);  // says more
    if (!is_whole()) throw;
  }
  throw_if_failed(work);
  if (options.say && !is_whole())
    options.say("dtrain: the processes have ended before all was done; this process does the rest alone");
}

std::int64_t limit_of_each(const Recipe& recipe, std::size_t on_a_host) {
  if (recipe.memory_limit_bytes) return *recipe.memory_limit_bytes;
  return std::max(memory_limit(recipe) / static_cast<std::int64_t>(on_a_host), kLeastMemory);
}

// All processes end. If that cannot be said to them, this error is thrown on, so that it is not lost.
void fail_all(const TaskFolder& tasks, const std::string& key, const std::string& what) {
  try {
    tasks.fail(failure_text(key, what));
  } catch (const NotThere&) {
    throw DataError(what);
  } catch (const std::exception&) {
    throw DataError(what);
  }
}

}  // namespace

ProcessReport process_together(const Recipe& recipe, const fs::path& folder, const TogetherOptions& options,
                               const StartWorkers& start) {
  must("Arrow", arrow::compute::Initialize());
  const fs::path work = work_folder(folder);
  const auto begin_anew = [&] {
    clear_shared_folder(folder);
    fs::create_directory(work);
  };
  try {
    const std::size_t on_a_host = std::max<std::size_t>(options.on_a_host, 1);
    auto plan = plan_left(recipe, work, on_a_host);
    const bool goes_on = plan.has_value();
    if (!goes_on) {
      begin_anew();
      plan = plan_of(recipe, limit_of_each(recipe, on_a_host), on_a_host);
    }
    const auto limit = (*plan)["memory_limit_bytes"].get<std::int64_t>();
    auto job = std::make_unique<SharedJob>(recipe, folder, limit, Seat{});
    const std::uint64_t digest = job->digest();
    if (goes_on && (*plan)["digest"] != digest) {  // what is there is of another input, or divided otherwise
      job.reset();
      begin_anew();
      job = std::make_unique<SharedJob>(recipe, folder, limit, Seat{});
    }
    (*plan)["digest"] = digest;
    if (!is_there(plan_path(work).string()))
      link_content(work.string(), plan_path(work).string(), plan->dump(), Durable::no);
    ProgressShown shown(*job, work, options.progress);
    let_workers_do_it(folder, shown, options, start);
    return finished(std::move(job), folder, shown);
  } catch (const NotThere& gone) {
    clear_shared_folder(folder);
    fail_at(gone.path, "it has been removed while it was needed");
  } catch (...) {
    clear_shared_folder(folder);
    throw;
  }
}

void work_together(const fs::path& folder, Seat seat, std::size_t on_a_host, std::chrono::milliseconds patience) {
  const nlohmann::json plan = await_plan(folder, patience);
  if (!is_plan(plan)) throw DataError("dtrain: " + what_is_other(plan, plan_path(work_folder(folder))));
  const TaskFolder tasks(work_folder(folder).string(), seat);
  try {
    must("Arrow", arrow::compute::Initialize());
    Recipe recipe = parse_recipe(plan.at("recipe"));
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    if (!recipe.threads)
      recipe.threads =
          std::max<std::int64_t>(1, cores / static_cast<std::int64_t>(std::max<std::size_t>(on_a_host, 1)));
    check_files(recipe, plan.at("files"));
    SharedJob job(recipe, folder, plan.at("memory_limit_bytes").get<std::int64_t>(), seat);
    if (plan.at("digest") != job.digest())
      throw DataError(
          fmt::format("dtrain: dataset.input: the node {} sees other rows in the files than the node that "
                      "began, or has another dtrain; {}",
                      host_name(""), kSameInput));
    job.run();
    link_content(work_folder(folder).string(), (work_folder(folder) / "whole").string(), "", Durable::no);
  } catch (const OtherFailed&) {
  } catch (const RecipeError& error) {
    fail_all(tasks, error.path, error.what());
  } catch (const DataError& error) {
    fail_all(tasks, "", error.what());
  }
}

}  // namespace dtrain::data
