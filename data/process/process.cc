#include "data/process/process.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/process/part_files.h"
#include "data/process/source_work.h"
#include "data/recipe/process_plan.h"
#include "data/recipe/scatter_plan.h"
#include "data/rows/parallel.h"
#include "data/rows/scatter.h"
#include "data/rows/statistics.h"
#include "data/rows/unit_rows.h"
#include "data/rows/value_hash.h"
#include "data/source/source.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

// From raw rows to files. The parts of the work: a partition in a pass (a function of the partition and of what earlier
// passes have found), and a bucket of rows.
class Job {
 public:
  Job(const Recipe& recipe, const fs::path& folder, const ProgressSink& progress)
      : recipe_(recipe),
        folder_(folder),
        progress_(progress),
        source_(open_source(recipe)),
        plan_(plan_process(recipe, source_columns(source_->schema()))),
        memory_(memory_limit(recipe)),
        growth_(growth_of(plan_, source_columns(source_->schema()))),
        work_(work_of(recipe, *source_, growth_, memory_)),
        operations_(plan_, types_read(*source_, plan_),
                    [this](std::size_t unit, std::int64_t row) { return source_->where(unit, row); }),
        store_(folder, work_.store_bytes),
        statistics_(plan_, operations_,
                    {source_->units().size(), bucket_counts({{"", 1.0}}, source_->bytes(), work_.block_bytes).front(),
                     work_.counts_bytes},
                    store_),
        units_(*source_, plan_, operations_, recipe.persist, store_),
        chooser_(recipe.split.shares) {
    for (const OutputColumn& column : plan_.output)
      fields_.push_back(arrow::field(column.name, operations_.types()[column.slot]));
    std::vector<std::string> names;
    for (const auto& [name, share] : recipe.split.shares) names.push_back(name);
    const std::uint32_t most = recipe.shuffle ? UINT32_MAX : 1;
    std::uint32_t first = 0;
    std::int64_t bytes = 0;
    for (std::size_t unit = 0; unit < source_->units().size(); ++unit) bytes += bytes_in_work(*source_, unit, growth_);
    for (const std::uint32_t count : bucket_counts(recipe.split.shares, bytes, work_.block_bytes)) {
      buckets_.push_back({first, std::min(count, most)});
      first += buckets_.back().count;
    }
    bucket_count_ = first;
    std::size_t files_max = work_.partition_count();
    if (recipe.shuffle)
      files_max = std::max_element(buckets_.begin(), buckets_.end(), [](const Buckets& one, const Buckets& other) {
                    return one.count < other.count;
                  })->count;
    files_ = std::make_unique<PartFiles>(folder, names, arrow::schema(fields_), recipe.row_group_rows, files_max);
  }

  ProcessReport run() {
    for (int pass = 0; pass + 1 < plan_.passes; ++pass) {
      for_partitions(pass, "gathering", [&](std::size_t unit, std::size_t) { units_.rows(unit, pass, statistics_); });
      statistics_.finish(pass, work_.threads);
    }
    if (recipe_.shuffle)
      write_shuffled();
    else
      write_in_order();
    return finish();
  }

 private:
  struct Buckets {
    std::uint32_t first, count;
  };

  void tell(int pass, const char* doing, std::size_t all) {
    if (!progress_) return;
    const std::lock_guard lock(progress_mutex_);
    progress_({pass, plan_.passes, doing, ++done_, all});
  }

  // `visit` gets each unit and the number of its partition; `end` follows the units of a partition.
  void for_partitions(int pass, const char* doing, const std::function<void(std::size_t, std::size_t)>& visit,
                      const std::function<void(std::size_t)>& end = {}) {
    done_ = 0;
    for_each_task(work_.partition_count(), work_.threads, [&](std::size_t partition) {
      for (std::size_t unit = work_.partitions[partition]; unit < work_.partitions[partition + 1]; ++unit) {
        visit(unit, partition);
        tell(pass, doing, source_->units().size());
      }
      if (end) end(partition);
    });
  }

  std::shared_ptr<arrow::RecordBatch> output_of(const Rows& rows) const {
    arrow::ArrayVector columns;
    for (const OutputColumn& column : plan_.output) columns.push_back(rows.slots[column.slot]);
    return arrow::RecordBatch::Make(arrow::schema(fields_), rows.count(), std::move(columns));
  }

  std::vector<std::uint32_t> parts_of(const Rows& rows) const {
    const auto count = static_cast<std::size_t>(rows.count());
    std::vector<std::uint32_t> parts(count);
    if (recipe_.split.shares.size() == 1) return parts;
    std::vector<std::uint64_t> hashes(count);
    if (plan_.split_slot) mix_in("dataset.split.by", *rows.slots[*plan_.split_slot], hashes);
    const RowKeys keys(recipe_.seed, rows.unit);
    for (std::size_t row = 0; row < count; ++row) {
      const std::uint64_t bits = plan_.split_slot ? random_bits(random_bits(recipe_.seed, 2), hashes[row])
                                                  : keys.of_split(rows.numbers->Value(static_cast<std::int64_t>(row)));
      parts[row] = static_cast<std::uint32_t>(chooser_.part(bits));
    }
    return parts;
  }

  void write_in_order() {
    const std::size_t parts = recipe_.split.shares.size();
    std::vector<std::vector<std::unique_ptr<PartFile>>> open(work_.partition_count());
    const auto visit = [&](std::size_t unit, std::size_t partition) {
      const Rows rows = units_.rows(unit, plan_.passes - 1, statistics_);
      Scattered sorted{output_of(rows), {static_cast<std::uint32_t>(rows.count())}};
      if (parts > 1) sorted = scatter("rows", *sorted.rows, parts_of(rows), static_cast<std::uint32_t>(parts));
      auto& files = open[partition];
      for (std::size_t part = files.size(); part < parts; ++part) files.push_back(files_->file(part, partition));
      std::uint32_t begin = 0;
      for (std::size_t part = 0; part < parts; begin = sorted.ends[part++]) {
        auto slice = sorted.rows->Slice(begin, sorted.ends[part] - begin);
        if (slice->num_rows() < sorted.rows->num_rows()) slice = copied("rows", *slice);  // a few may wait for long
        files[part]->add(*slice);
      }
    };
    for_partitions(plan_.passes - 1, "writing", visit, [&](std::size_t partition) {
      for (std::size_t part = 0; part < parts; ++part) {
        open[partition][part]->close();
        files_->closed(part, partition, open[partition][part]->rows());
      }
      open[partition].clear();
    });
  }

  // The output with the key of each row, and the bucket that it goes to.
  std::pair<std::shared_ptr<arrow::RecordBatch>, std::vector<std::uint32_t>> keyed(const Rows& rows) const {
    std::vector<std::uint32_t> buckets = parts_of(rows);
    const RowKeys keys(recipe_.seed, rows.unit);
    const std::shared_ptr<arrow::Buffer> buffer = must("rows", arrow::AllocateBuffer(rows.count() * 8));
    auto* key = reinterpret_cast<std::uint64_t*>(buffer->mutable_data());
    for (std::size_t row = 0; row < buckets.size(); ++row) {
      key[row] = keys.of_order(rows.numbers->Value(static_cast<std::int64_t>(row)));
      const Buckets& of = buckets_[buckets[row]];
      buckets[row] = of.first + bucket_of_key(key[row], of.count);
    }
    const auto batch = output_of(rows);
    arrow::ArrayVector columns = batch->columns();
    arrow::FieldVector fields = fields_;
    columns.push_back(std::make_shared<arrow::UInt64Array>(rows.count(), buffer));
    fields.push_back(arrow::field("key", arrow::uint64()));
    return {arrow::RecordBatch::Make(arrow::schema(fields), rows.count(), std::move(columns)), std::move(buckets)};
  }

  // Rows of a partition that have no place in the store yet.
  struct Block {
    Batches batches;
    std::vector<std::uint32_t> buckets;
    std::int64_t bytes = 0;
    std::vector<BatchStore::Kept> kept;
  };

  void put_away(Block& block) {
    if (block.batches.empty()) return;
    const auto rows = joined("rows", block.batches);
    block.batches.clear();
    auto [sorted, ends] = scatter("rows", *rows, block.buckets, bucket_count_);
    block.kept.push_back(store_.put(std::move(sorted), std::move(ends)));
    block.buckets.clear();
    block.bytes = 0;
  }

  void write_shuffled() {
    std::vector<Block> blocks(work_.partition_count());
    const auto visit = [&](std::size_t unit, std::size_t partition) {
      Block& block = blocks[partition];
      auto [batch, buckets] = keyed(units_.rows(unit, plan_.passes - 1, statistics_));
      block.batches.push_back(std::move(batch));
      block.buckets.insert(block.buckets.end(), buckets.begin(), buckets.end());
      block.bytes += bytes_in_work(*source_, unit, growth_);
      if (block.bytes >= work_.block_bytes) put_away(block);
    };
    for_partitions(plan_.passes - 1, "transforming", visit,
                   [&](std::size_t partition) { put_away(blocks[partition]); });
    done_ = 0;
    for_each_task(bucket_count_, work_.threads, [&](std::size_t bucket) {
      write_bucket(blocks, static_cast<std::uint32_t>(bucket));
      tell(plan_.passes, "writing", bucket_count_);
    });
  }

  void write_bucket(const std::vector<Block>& blocks, std::uint32_t bucket) {
    Batches batches;
    for (const Block& block : blocks)
      for (const BatchStore::Kept& kept : block.kept) batches.push_back(store_.get(kept, bucket));
    std::size_t part = 0;
    while (bucket >= buckets_[part].first + buckets_[part].count) ++part;
    const std::size_t number = bucket - buckets_[part].first;
    const auto rows = joined("rows", batches);
    batches.clear();
    const auto file = files_->file(part, number);
    file->add(*ordered("rows", *rows));
    file->close();
    files_->closed(part, number, file->rows());
  }

  ProcessReport finish() {
    ProcessReport report;
    for (std::size_t unit = 0; unit < source_->units().size(); ++unit) report.rows_read += units_.rows_read(unit);
    std::int64_t rows = 0;
    for (const PartFiles::Part& part : files_->finish()) {
      report.parts.push_back({part.name, part.rows, part.bytes, part.files});
      rows += part.rows;
    }
    if (rows == 0)
      throw DataError(fmt::format("dtrain: dataset.steps: of {} rows none is left after the steps", report.rows_read));
    report.partitions = work_.partition_count();
    report.threads = work_.threads;
    report.passes = plan_.passes;
    report.memory_limit_bytes = memory_;
    report.spilled_bytes = store_.spilled_bytes();
    write_notes();
    return report;
  }

  void write_notes() const {
    nlohmann::json columns = nlohmann::json::array();
    for (const auto& field : fields_) columns.push_back({{"name", field->name()}, {"type", field->type()->ToString()}});
    nlohmann::json input = nlohmann::json::array();
    for (const SourceColumn& column : source_columns(source_->schema()))
      input.push_back({{"name", column.name},
                       {"type", column.type == ColumnType::other ? column.type_name : name_of(column.type)}});
    const nlohmann::json notes = {
        {"recipe", recipe_.text}, {"input", input}, {"columns", columns}, {"statistics", statistics_.to_json()}};
    const fs::path path = folder_ / "recipe.json";
    std::ofstream out(path);
    // Statistics are texts in UTF-8. Names of files and columns need not be.
    out << notes.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
    if (!out) fail_at(path.string(), "it cannot be written");
  }

  const Recipe& recipe_;
  const fs::path folder_;
  const ProgressSink& progress_;
  const std::unique_ptr<Source> source_;
  const ProcessPlan plan_;
  const std::int64_t memory_;
  const Growth growth_;
  const WorkPlan work_;
  const Operations operations_;
  BatchStore store_;
  Statistics statistics_;
  UnitRows units_;
  const PartChooser chooser_;
  arrow::FieldVector fields_;
  std::unique_ptr<PartFiles> files_;
  std::vector<Buckets> buckets_;  // of each part
  std::uint32_t bucket_count_ = 1;
  std::mutex progress_mutex_;
  std::atomic<std::size_t> done_{0};
};

void check_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) fail_at(folder.string(), "there is no such folder");
  if (!fs::is_empty(folder, error) || error) fail_at(folder.string(), "the folder is not empty");
}

void clear_folder(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    fs::remove_all(at->path(), ignored);
  }
}

}  // namespace

ProcessReport process(const Recipe& recipe, const fs::path& folder, const ProgressSink& progress) {
  check_folder(folder);
  must("Arrow", arrow::compute::Initialize());
  try {
    return Job(recipe, folder, progress).run();
  } catch (...) {
    clear_folder(folder);
    throw;
  }
}

}  // namespace dtrain::data
