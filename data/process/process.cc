#include "data/process/process.h"

#include <arrow/compute/initialize.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include "data/arrow/arrow_calls.h"
#include "data/process/recipe_job.h"
#include "data/rows/parallel.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

// All parts in this process.
class OneProcess {
 public:
  OneProcess(const Recipe& recipe, const fs::path& folder, const ProgressSink& progress)
      : shuffle_(recipe.shuffle),
        parts_(recipe.split.shares.size()),
        progress_(progress),
        job_(recipe, folder, memory_limit(recipe)) {}

  ProcessReport run() {
    const int last = job_.passes() - 1;
    for (int pass = 0; pass < last; ++pass) {
      for_partitions(pass, "gathering", [&](std::size_t partition, const RecipeJob::Told& told) {
        job_.gather(partition, pass, job_.statistics(), told);
      });
      job_.statistics().compare(pass, job_.threads());
      job_.statistics().finish(pass);
    }
    if (shuffle_)
      write_shuffled(last);
    else
      write_in_order(last);
    std::int64_t rows = 0;
    for (std::size_t partition = 0; partition < job_.partitions(); ++partition) rows += job_.rows_read(partition);
    return job_.finish(rows);
  }

 private:
  void tell(int pass, const char* doing, std::size_t all) {
    if (!progress_) return;
    const std::lock_guard lock(progress_mutex_);
    progress_({pass, job_.passes(), doing, ++done_, all});
  }

  void for_partitions(int pass, const char* doing,
                      const std::function<void(std::size_t, const RecipeJob::Told&)>& work) {
    done_ = 0;
    const RecipeJob::Told told = [&] { tell(pass, doing, job_.source().units().size()); };
    for_each_task(job_.partitions(), job_.threads(), [&](std::size_t partition) { work(partition, told); });
  }

  void write_in_order(int pass) {
    for_partitions(pass, "writing", [&](std::size_t partition, const RecipeJob::Told& told) {
      std::vector<std::unique_ptr<PartFile>> open;
      for (std::size_t part = 0; part < parts_; ++part) open.push_back(job_.files().file(part, partition));
      job_.write_rows(partition, open, told);
      for (std::size_t part = 0; part < parts_; ++part) job_.files().closed(part, partition, open[part]->rows());
    });
  }

  void write_shuffled(int pass) {
    std::vector<RecipeJob::Blocks> blocks(job_.partitions());
    for_partitions(pass, "transforming", [&](std::size_t partition, const RecipeJob::Told& told) {
      blocks[partition] = job_.scatter_rows(partition, told);
    });
    done_ = 0;
    for_each_task(job_.buckets(), job_.threads(), [&](std::size_t number) {
      const auto bucket = static_cast<std::uint32_t>(number);
      const RecipeJob::Place place = job_.place_of(bucket);
      const auto file = job_.files().file(place.part, place.number);
      job_.write_bucket(bucket, blocks, *file, {});
      job_.files().closed(place.part, place.number, file->rows());
      tell(job_.passes(), "writing", job_.buckets());
    });
  }

  const bool shuffle_;
  const std::size_t parts_;
  const ProgressSink& progress_;
  RecipeJob job_;
  std::mutex progress_mutex_;
  std::atomic<std::size_t> done_{0};
};

}  // namespace

void check_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail_at(folder.string(), "there is no such folder");
  if (!fs::is_empty(folder, error) || error)
    fail_at(folder.string(), "the folder is not empty; remove what is in it, or name an empty folder");
}

void clear_folder(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    fs::remove_all(at->path(), ignored);
  }
}

ProcessReport process(const Recipe& recipe, const fs::path& folder, const ProgressSink& progress) {
  check_folder(folder);
  must("Arrow", arrow::compute::Initialize());
  try {
    return OneProcess(recipe, folder, progress).run();
  } catch (...) {
    clear_folder(folder);
    throw;
  }
}

}  // namespace dtrain::data
