#include "data/rows/duplicates.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/compare.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/base/packed.h"
#include "data/recipe/scatter_plan.h"
#include "data/rows/scatter.h"
#include "data/rows/value_hash.h"

namespace dtrain::data {
namespace {

// What is in a batch behind the columns that are compared.
enum Beside { hash, unit, number, beside_count };

template <typename ArrowType>
const auto& beside(const arrow::RecordBatch& rows, Beside which) {
  const int column = rows.num_columns() - beside_count + which;
  return static_cast<const arrow::NumericArray<ArrowType>&>(*rows.column(column));
}

bool equal(const arrow::RecordBatch& rows, std::int64_t one, std::int64_t other) {
  static const auto options = arrow::EqualOptions::Defaults().nans_equal(true);
  for (int column = 0; column < rows.num_columns() - beside_count; ++column) {
    const arrow::Array& values = *rows.column(column);
    if (!values.RangeEquals(values, one, one + 1, other, options)) return false;
  }
  return true;
}

// The rows that are equal to an earlier one of the batch, ascending.
std::vector<std::int64_t> repeats(const arrow::RecordBatch& rows) {
  const auto& hashes = beside<arrow::UInt64Type>(rows, hash);
  std::unordered_multimap<std::uint64_t, std::int64_t> first;
  std::vector<std::int64_t> found;
  for (std::int64_t row = 0; row < rows.num_rows(); ++row) {
    const auto [begin, end] = first.equal_range(hashes.Value(row));
    if (std::any_of(begin, end, [&](const auto& other) { return equal(rows, other.second, row); }))
      found.push_back(row);
    else
      first.emplace(hashes.Value(row), row);
  }
  return found;
}

template <typename Builder, typename T>
std::shared_ptr<arrow::Array> built(const std::string& where, const std::vector<T>& values) {
  Builder builder;
  must(where, builder.AppendValues(values));
  return must(where, builder.Finish());
}

}  // namespace

Duplicates::Duplicates(std::string where, std::vector<std::size_t> slots, std::size_t first, std::size_t end,
                       std::uint32_t buckets, BatchStore& store)
    : where_(std::move(where)),
      slots_(std::move(slots)),
      first_(first),
      buckets_(buckets),
      store_(store),
      kept_(end - first),
      dropped_(end - first) {}

void Duplicates::add(const Rows& rows) {
  const auto count = static_cast<std::size_t>(rows.count());
  std::vector<std::uint64_t> hashes(count);
  arrow::ArrayVector columns;
  arrow::FieldVector fields;
  for (const std::size_t slot : slots_) {
    mix_in(where_, *rows.slots[slot], hashes);
    columns.push_back(rows.slots[slot]);
    fields.push_back(arrow::field(std::to_string(slot), rows.slots[slot]->type()));
  }
  columns.push_back(built<arrow::UInt64Builder>(where_, hashes));
  columns.push_back(built<arrow::UInt64Builder>(where_, std::vector<std::uint64_t>(count, rows.unit)));
  columns.push_back(rows.numbers);
  fields.push_back(arrow::field("hash", arrow::uint64()));
  fields.push_back(arrow::field("unit", arrow::uint64()));
  fields.push_back(arrow::field("number", arrow::uint32()));
  const auto batch = arrow::RecordBatch::Make(arrow::schema(fields), rows.count(), std::move(columns));
  const std::vector<std::int64_t> repeated = repeats(*batch);
  auto& dropped = dropped_[rows.unit - first_];
  dropped.reserve(repeated.size());
  for (const std::int64_t row : repeated) dropped.push_back(rows.numbers->Value(row));
  // A value that all rows have would fill one bucket with all of them. So a unit's repeats end here: they are put into
  // a bucket behind the last one, which is left out.
  std::vector<std::uint32_t> buckets(count);
  for (std::size_t row = 0; row < count; ++row) buckets[row] = bucket_of_key(hashes[row], buckets_);
  for (const std::int64_t row : repeated) buckets[static_cast<std::size_t>(row)] = buckets_;
  auto [sorted, ends] = scatter(where_, *batch, buckets, buckets_ + 1);
  ends.pop_back();
  if (!repeated.empty()) sorted = copied(where_, *sorted->Slice(0, ends.back()));
  kept_[rows.unit - first_] = store_.put(std::move(sorted), std::move(ends));
}

std::string Duplicates::packed() const {
  Packer packer;
  packer.put(static_cast<std::uint64_t>(kept_.size()));
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    packer.put(static_cast<std::uint64_t>(first_ + i));
    packer.put_list(dropped_[i]);
    packer.put_text(store_.packed(kept_[i]));
  }
  return packer.take();
}

void Duplicates::add_packed(std::string_view packed) {
  Unpacker unpacker(packed);
  for (auto left = unpacker.get<std::uint64_t>(); left > 0; --left) {
    const std::size_t at = unpacker.get<std::uint64_t>() - first_;
    if (at >= kept_.size()) throw_of_others();
    dropped_[at] = unpacker.list<std::uint32_t>();
    kept_[at] = store_.unpacked(unpacker.text());
  }
  if (!unpacker.at_end()) throw_of_others();
}

std::vector<Duplicates::Row> Duplicates::repeated_in(std::uint32_t bucket) const {
  Batches batches;
  for (const BatchStore::Kept& kept : kept_)
    if (!kept.empty()) batches.push_back(store_.get(kept, bucket));
  if (batches.empty()) return {};
  const auto rows = joined(where_, batches);
  const auto& units = beside<arrow::UInt64Type>(*rows, unit);
  const auto& numbers = beside<arrow::UInt32Type>(*rows, number);
  std::vector<Row> found;
  for (const std::int64_t row : repeats(*rows)) found.push_back({units.Value(row), numbers.Value(row)});
  return found;
}

void Duplicates::drop(const std::vector<Row>& rows) {
  const std::lock_guard lock(mutex_);
  for (const Row& row : rows) {
    if (row.unit - first_ >= dropped_.size()) throw_of_others();
    dropped_[row.unit - first_].push_back(row.number);
  }
}

std::vector<std::vector<std::uint32_t>> Duplicates::dropped() {
  for (auto& kept : kept_) store_.forget(kept);
  for (auto& dropped : dropped_) std::sort(dropped.begin(), dropped.end());
  return std::move(dropped_);
}

}  // namespace dtrain::data
