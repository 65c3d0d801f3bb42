#include "data/rows/unit_rows.h"

#include <arrow/buffer.h>

#include <numeric>
#include <string>
#include <utility>

#include "data/arrow/arrow_calls.h"

namespace dtrain::data {
namespace {

std::shared_ptr<arrow::UInt32Array> numbers_to(std::int64_t count) {
  const std::shared_ptr<arrow::Buffer> buffer = must("rows", arrow::AllocateBuffer(count * 4));
  auto* numbers = reinterpret_cast<std::uint32_t*>(buffer->mutable_data());
  std::iota(numbers, numbers + count, std::uint32_t{0});
  return std::make_shared<arrow::UInt32Array>(count, buffer);
}

}  // namespace

UnitRows::UnitRows(const Source& source, const ProcessPlan& plan, const Operations& operations, bool persist,
                   BatchStore& store)
    : source_(source),
      plan_(plan),
      operations_(operations),
      persist_(persist),
      store_(store),
      waiting_(source.units().size()),
      counts_(source.units().size()) {}

Rows UnitRows::rows(std::size_t unit, int pass, const Statistics& known, Statistics& gathers) {
  Rows rows = waiting_[unit].kept.empty() ? read(unit, pass) : take_kept(unit);
  const int before = rows.done;
  for (std::size_t i = 0; i < plan_.operations.size(); ++i) {
    const Operation& operation = plan_.operations[i];
    if (operation.gathered == pass) gathers.gather(i, rows);
    if (operation.applied <= pass && operation.applied > before) operations_.apply(i, known.known(i), rows);
  }
  rows.done = pass;
  if (persist_ && pass + 1 < plan_.passes) keep(rows);
  return rows;
}

Rows UnitRows::read(std::size_t unit, int pass) {
  // Rows that wait for later passes must have all that those need.
  const std::vector<bool> needed = plan_.slots_of_pass(persist_ ? plan_.passes - 1 : pass);
  std::vector<int> columns;
  for (std::size_t slot = 0; slot < needed.size(); ++slot)
    if (needed[slot]) columns.push_back(static_cast<int>(plan_.read[slot]));
  Arrays arrays = source_.read(unit, columns);
  Rows rows;
  rows.unit = unit;
  rows.slots.resize(needed.size());
  counts_[unit] = arrays.front()->length();
  rows.numbers = numbers_to(counts_[unit]);
  auto next = arrays.begin();
  for (std::size_t slot = 0; slot < needed.size(); ++slot)
    if (needed[slot]) rows.slots[slot] = std::move(*next++);
  return rows;
}

Rows UnitRows::take_kept(std::size_t unit) {
  Waiting& waiting = waiting_[unit];
  const auto batch = store_.get(waiting.kept, 0);
  store_.forget(waiting.kept);
  Rows rows;
  rows.unit = unit;
  rows.done = waiting.done;
  rows.numbers = std::static_pointer_cast<arrow::UInt32Array>(batch->column(0));
  rows.slots.resize(plan_.read.size());
  for (std::size_t i = 0; i < waiting.slots.size(); ++i)
    rows.slots[waiting.slots[i]] = batch->column(static_cast<int>(i) + 1);
  return rows;
}

void UnitRows::keep(const Rows& rows) {
  Waiting& waiting = waiting_[rows.unit];
  waiting.done = rows.done;
  waiting.slots.clear();
  arrow::ArrayVector columns{rows.numbers};
  arrow::FieldVector fields{arrow::field("number", arrow::uint32())};
  for (std::size_t slot = 0; slot < rows.slots.size(); ++slot) {
    if (!rows.slots[slot]) continue;
    waiting.slots.push_back(slot);
    columns.push_back(rows.slots[slot]);
    fields.push_back(arrow::field(std::to_string(slot), rows.slots[slot]->type()));
  }
  const auto count = static_cast<std::uint32_t>(rows.count());
  waiting.kept = store_.put(arrow::RecordBatch::Make(arrow::schema(fields), count, std::move(columns)), {count});
}

}  // namespace dtrain::data
