#pragma once
// A recipe that is being carried out: what is known of it, and the parts of the work. A part is a function of its
// number and of what earlier passes have found, so it does not matter which thread or process does it.
#include <arrow/record_batch.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/process/part_files.h"
#include "data/process/process.h"
#include "data/process/source_work.h"
#include "data/recipe/process_plan.h"
#include "data/recipe/scatter_plan.h"
#include "data/recipe/work_plan.h"
#include "data/rows/batch_store.h"
#include "data/rows/operations.h"
#include "data/rows/scatter.h"
#include "data/rows/statistics.h"
#include "data/rows/unit_rows.h"
#include "data/source/source.h"

namespace dtrain::data {

class RecipeJob {
 public:
  // `memory`: the limit. `exchange`: where rows wait that go from one part to others, and in its folder the other rows
  // of this process; nullptr: all of them in this process, with a file in `folder`.
  RecipeJob(const Recipe& recipe, const std::filesystem::path& folder, std::int64_t memory,
            BatchStore* exchange = nullptr);

  std::size_t partitions() const { return work_.partition_count(); }
  std::size_t threads() const { return work_.threads; }
  int passes() const { return plan_.passes; }
  std::uint32_t buckets() const { return bucket_count_; }
  const Source& source() const { return *source_; }
  Statistics& statistics() { return statistics_; }
  PartFiles& files() { return *files_; }
  const PartFiles& files() const { return *files_; }

  // After each unit that is read, and each partition whose rows are fetched.
  using Told = std::function<void()>;
  // For the statistics of a pass but the last one: into `found`.
  void gather(std::size_t partition, int pass, Statistics& found, const Told& told);
  // For gather(): of this partition alone.
  std::unique_ptr<Statistics> statistics_of(std::size_t partition);

  // The last pass. With shuffle, the rows of a partition as blocks with a piece for each bucket, which then becomes a
  // file. Else a file for each part of the split.
  using Blocks = std::vector<BatchStore::Kept>;
  Blocks scatter_rows(std::size_t partition, const Told& told);
  struct Place {
    std::size_t part = 0, number = 0;  // of a file
  };
  Place place_of(std::uint32_t bucket) const;
  void write_bucket(std::uint32_t bucket, const std::vector<Blocks>& blocks, PartFile& file, const Told& told) const;
  void write_rows(std::size_t partition, std::vector<std::unique_ptr<PartFile>>& files, const Told& told);

  // Of the units of a partition, in this process.
  std::int64_t rows_read(std::size_t partition) const;
  // After all files.
  ProcessReport finish(std::int64_t rows_read);

 private:
  struct Buckets {
    std::uint32_t first, count;
  };
  struct Block;

  template <class Visit>
  void for_units(std::size_t partition, const Told& told, const Visit& visit) const;
  BatchStore& exchange() { return exchange_ == nullptr ? store_ : *exchange_; }
  Statistics::Limits limits(std::size_t first, std::size_t end) const;
  void plan_buckets();
  std::shared_ptr<arrow::RecordBatch> output_of(const Rows& rows) const;
  std::vector<std::uint32_t> parts_of(const Rows& rows) const;
  std::pair<std::shared_ptr<arrow::RecordBatch>, std::vector<std::uint32_t>> keyed(const Rows& rows) const;
  void put_away(Block& block);
  void write_notes() const;

  const Recipe& recipe_;
  const std::filesystem::path folder_;
  const std::unique_ptr<Source> source_;
  const ProcessPlan plan_;
  const std::int64_t memory_;
  const Growth growth_;
  const WorkPlan work_;
  const Operations operations_;
  BatchStore store_;
  BatchStore* const exchange_;
  Statistics statistics_;
  UnitRows units_;
  const PartChooser chooser_;
  arrow::FieldVector fields_;
  std::unique_ptr<PartFiles> files_;
  std::vector<Buckets> buckets_;  // of each part
  std::uint32_t bucket_count_ = 1;
};

}  // namespace dtrain::data
