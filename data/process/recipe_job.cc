#include "data/process/recipe_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "data/arrow/arrow_calls.h"
#include "data/rows/value_hash.h"

namespace dtrain::data {

namespace fs = std::filesystem;

// Rows of a partition that have no place in the store yet.
struct RecipeJob::Block {
  Batches batches;
  std::vector<std::uint32_t> buckets;
  std::int64_t bytes = 0;
  Blocks kept;
};

RecipeJob::RecipeJob(const Recipe& recipe, const fs::path& folder, std::int64_t memory, BatchStore* exchange)
    : recipe_(recipe),
      folder_(folder),
      source_(open_source(recipe)),
      plan_(plan_process(recipe, source_columns(source_->schema()))),
      memory_(memory),
      growth_(growth_of(plan_, source_columns(source_->schema()))),
      work_(work_of(recipe, *source_, growth_, memory_)),
      operations_(plan_, types_read(*source_, plan_),
                  [this](std::size_t unit, std::int64_t row) { return source_->where(unit, row); }),
      store_(exchange == nullptr ? folder : exchange->folder(), work_.store_bytes),
      exchange_(exchange),
      statistics_(plan_, operations_, limits(0, source_->units().size()), this->exchange()),
      units_(*source_, plan_, operations_, recipe.persist, store_),
      chooser_(recipe.split.shares) {
  for (const OutputColumn& column : plan_.output)
    fields_.push_back(arrow::field(column.name, operations_.types()[column.slot]));
  plan_buckets();
}

Statistics::Limits RecipeJob::limits(std::size_t first, std::size_t end) const {
  return {first, end, bucket_counts({{"", 1.0}}, source_->bytes(), work_.block_bytes).front(), work_.counts_bytes};
}

void RecipeJob::plan_buckets() {
  std::vector<std::string> names;
  for (const auto& [name, share] : recipe_.split.shares) names.push_back(name);
  const std::uint32_t most = recipe_.shuffle ? UINT32_MAX : 1;
  std::uint32_t first = 0;
  std::int64_t bytes = 0;
  for (std::size_t unit = 0; unit < source_->units().size(); ++unit) bytes += bytes_in_work(*source_, unit, growth_);
  for (const std::uint32_t count : bucket_counts(recipe_.split.shares, bytes, work_.block_bytes)) {
    buckets_.push_back({first, std::min(count, most)});
    first += buckets_.back().count;
  }
  bucket_count_ = first;
  std::size_t files_max = work_.partition_count();
  if (recipe_.shuffle)
    files_max = std::max_element(buckets_.begin(), buckets_.end(), [](const Buckets& one, const Buckets& other) {
                  return one.count < other.count;
                })->count;
  files_ = std::make_unique<PartFiles>(folder_, names, arrow::schema(fields_), recipe_.row_group_rows, files_max);
}

template <class Visit>
void RecipeJob::for_units(std::size_t partition, const Told& told, const Visit& visit) const {
  for (std::size_t unit = work_.partitions[partition]; unit < work_.partitions[partition + 1]; ++unit) {
    visit(unit);
    if (told) told();
  }
}

void RecipeJob::gather(std::size_t partition, int pass, Statistics& found, const Told& told) {
  for_units(partition, told, [&](std::size_t unit) { units_.rows(unit, pass, statistics_, found); });
}

std::unique_ptr<Statistics> RecipeJob::statistics_of(std::size_t partition) {
  return std::make_unique<Statistics>(plan_, operations_,
                                      limits(work_.partitions[partition], work_.partitions[partition + 1]), exchange());
}

std::shared_ptr<arrow::RecordBatch> RecipeJob::output_of(const Rows& rows) const {
  arrow::ArrayVector columns;
  for (const OutputColumn& column : plan_.output) columns.push_back(rows.slots[column.slot]);
  return arrow::RecordBatch::Make(arrow::schema(fields_), rows.count(), std::move(columns));
}

std::vector<std::uint32_t> RecipeJob::parts_of(const Rows& rows) const {
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

void RecipeJob::write_rows(std::size_t partition, std::vector<std::unique_ptr<PartFile>>& files, const Told& told) {
  const std::size_t parts = recipe_.split.shares.size();
  for_units(partition, told, [&](std::size_t unit) {
    const Rows rows = units_.rows(unit, plan_.passes - 1, statistics_, statistics_);
    Scattered sorted{output_of(rows), {static_cast<std::uint32_t>(rows.count())}};
    if (parts > 1) sorted = scatter("rows", *sorted.rows, parts_of(rows), static_cast<std::uint32_t>(parts));
    std::uint32_t begin = 0;
    for (std::size_t part = 0; part < parts; begin = sorted.ends[part++]) {
      auto slice = sorted.rows->Slice(begin, sorted.ends[part] - begin);
      if (slice->num_rows() < sorted.rows->num_rows()) slice = copied("rows", *slice);  // a few may wait for long
      files[part]->add(*slice);
    }
  });
  for (const auto& file : files) file->close();
}

// The output with the key of each row, and the bucket that it goes to.
std::pair<std::shared_ptr<arrow::RecordBatch>, std::vector<std::uint32_t>> RecipeJob::keyed(const Rows& rows) const {
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

void RecipeJob::put_away(Block& block) {
  if (block.batches.empty()) return;
  const auto rows = joined("rows", block.batches);
  block.batches.clear();
  auto [sorted, ends] = scatter("rows", *rows, block.buckets, bucket_count_);
  block.kept.push_back(exchange().put(std::move(sorted), std::move(ends)));
  block.buckets.clear();
  block.bytes = 0;
}

RecipeJob::Blocks RecipeJob::scatter_rows(std::size_t partition, const Told& told) {
  Block block;
  for_units(partition, told, [&](std::size_t unit) {
    auto [batch, buckets] = keyed(units_.rows(unit, plan_.passes - 1, statistics_, statistics_));
    block.batches.push_back(std::move(batch));
    block.buckets.insert(block.buckets.end(), buckets.begin(), buckets.end());
    block.bytes += bytes_in_work(*source_, unit, growth_);
    if (block.bytes >= work_.block_bytes) put_away(block);
  });
  put_away(block);
  return std::move(block.kept);
}

RecipeJob::Place RecipeJob::place_of(std::uint32_t bucket) const {
  Place place;
  while (bucket >= buckets_[place.part].first + buckets_[place.part].count) ++place.part;
  place.number = bucket - buckets_[place.part].first;
  return place;
}

void RecipeJob::write_bucket(std::uint32_t bucket, const std::vector<Blocks>& blocks, PartFile& file,
                             const Told& told) const {
  const BatchStore& store = exchange_ == nullptr ? store_ : *exchange_;
  Batches batches;
  for (const Blocks& each : blocks) {
    for (const BatchStore::Kept& kept : each) batches.push_back(store.get(kept, bucket));
    if (told) told();
  }
  const auto rows = joined("rows", batches);
  batches.clear();
  file.add(*ordered("rows", *rows));
  file.close();
}

std::int64_t RecipeJob::rows_read(std::size_t partition) const {
  std::int64_t rows = 0;
  for_units(partition, {}, [&](std::size_t unit) { rows += units_.rows_read(unit); });
  return rows;
}

ProcessReport RecipeJob::finish(std::int64_t rows_read) {
  ProcessReport report;
  report.rows_read = rows_read;
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

void RecipeJob::write_notes() const {
  nlohmann::json columns = nlohmann::json::array();
  for (const auto& field : fields_) columns.push_back({{"name", field->name()}, {"type", field->type()->ToString()}});
  nlohmann::json input = nlohmann::json::array();
  for (const SourceColumn& column : source_columns(source_->schema()))
    input.push_back(
        {{"name", column.name}, {"type", column.type == ColumnType::other ? column.type_name : name_of(column.type)}});
  const nlohmann::json notes = {
      {"recipe", recipe_.text}, {"input", input}, {"columns", columns}, {"statistics", statistics_.to_json()}};
  const fs::path path = folder_ / "recipe.json";
  std::ofstream out(path);
  // Statistics are texts in UTF-8. Names of files and columns need not be.
  out << notes.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n' << std::flush;
  if (!out) fail_at(path.string(), "it cannot be written");
}

}  // namespace dtrain::data
