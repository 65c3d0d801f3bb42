#pragma once
// A recipe as parts that several processes share: who does them, and what becomes of their results. All processes do
// the same calls in the same order.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/base/packed.h"
#include "data/process/recipe_job.h"
#include "data/rows/batch_store.h"
#include "data/together/phase_watch.h"
#include "data/together/task_folder.h"

namespace dtrain::data {

// Where the processes meet, in the folder that they fill.
std::filesystem::path work_folder(const std::filesystem::path& folder);

class SharedJob {
 public:
  // `memory`: the limit of this process. Throws as RecipeJob does.
  SharedJob(const Recipe& recipe, const std::filesystem::path& folder, std::int64_t memory, Seat seat);

  // What all processes must agree about: the units of the input, and how the work is divided.
  std::uint64_t digest() const;

  // What run() does one after the other, and in how many passes over the rows.
  std::vector<Phase> phases();
  int passes() const { return job_.passes(); }

  // Until all parts have their results, whoever makes them. Throws as TaskFolder::share() does.
  void run();
  // After run(), in one process: files get their last numbers.
  ProcessReport finish();
  // The files that are there then, of what finish() has returned. The folder of a killed build may have others.
  std::set<std::filesystem::path> result(const ProcessReport& report) const;

 private:
  using Work = std::function<void(std::size_t part, Packer& result, const RecipeJob::Told& told)>;
  using TakeResult = std::function<void(std::size_t part, Unpacker& result)>;
  void share(const std::string& phase, std::size_t count, const Work& work, const TakeResult& take);
  void count(int pass, std::int64_t rows);
  void gather(int pass);
  void publish(const std::filesystem::path& draft, const PartFile& file, RecipeJob::Place place);
  void take_written(RecipeJob::Place place, Unpacker& result);
  void write_buckets(const std::vector<RecipeJob::Blocks>& blocks);
  void write_in_order(const std::string& phase);

  const bool shuffle_;
  const std::filesystem::path folder_;
  const std::size_t parts_;
  TaskFolder tasks_;
  BatchStore exchange_;
  RecipeJob job_;
  std::int64_t rows_read_ = 0;
  std::vector<std::pair<RecipeJob::Place, std::int64_t>> written_;
};

}  // namespace dtrain::data
