#include "data/rows/statistics.h"

#include <arrow/compute/api.h>
#include <arrow/util/utf8.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/base/packed.h"
#include "data/rows/parallel.h"

namespace dtrain::data {
namespace {

namespace compute = arrow::compute;

// An entry of std::map, and the value in it.
constexpr std::int64_t kCountBytes = 96;

bool is_mean(const Operation& operation) {
  const auto* fill = std::get_if<FillTo>(&operation.how);
  return fill != nullptr && fill->with == std::variant<Value, FillWith>(FillWith::mean);
}

bool has_moments(const Operation& operation) {
  return std::holds_alternative<Scale>(operation.how) || is_mean(operation);
}

Moments moments_of_array(const std::string& where, const std::shared_ptr<arrow::Array>& column) {
  auto numbers = as_floats(where, column);
  if (numbers->null_count() > 0) numbers = must(where, compute::DropNull(numbers)).make_array();
  const auto count = static_cast<std::size_t>(numbers->length());
  if (numbers->type_id() == arrow::Type::FLOAT)
    return moments_of(std::span(static_cast<const arrow::FloatArray&>(*numbers).raw_values(), count));
  return moments_of(std::span(static_cast<const arrow::DoubleArray&>(*numbers).raw_values(), count));
}

// One array of the types that a Value can have.
std::shared_ptr<arrow::Array> as_values(const std::string& where, const std::shared_ptr<arrow::Array>& column) {
  if (column->type_id() == arrow::Type::STRING || column->type_id() == arrow::Type::BOOL ||
      column->type_id() == arrow::Type::UINT64)
    return column;
  const auto type = column->type_id() == arrow::Type::LARGE_STRING ? arrow::utf8()
                    : arrow::is_floating(column->type_id())        ? arrow::float64()
                                                                   : arrow::int64();
  return must(where, compute::Cast(*column, type));
}

Value value_at(const arrow::Array& values, std::int64_t at) {
  switch (values.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(values).Value(at);
    case arrow::Type::INT64:
      return static_cast<const arrow::Int64Array&>(values).Value(at);
    case arrow::Type::UINT64:
      return static_cast<const arrow::UInt64Array&>(values).Value(at);
    case arrow::Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(values).Value(at);
    default:
      return static_cast<const arrow::StringArray&>(values).GetString(at);
  }
}

bool is_nan(const Value& value) {
  const auto* number = std::get_if<double>(&value);
  return number != nullptr && std::isnan(*number);
}

template <class... Each>
struct overloaded : Each... {
  using Each::operator()...;
};

Value unpacked_value(Unpacker& unpacker) {
  switch (unpacker.get<std::uint8_t>()) {
    case 0:
      return unpacker.get<bool>();
    case 1:
      return unpacker.get<std::int64_t>();
    case 2:
      return unpacker.get<double>();
    case 3:
      return std::string(unpacker.text());
    default:
      return unpacker.get<std::uint64_t>();
  }
}

// The most frequent first; of equally frequent ones the smaller value.
std::vector<Value> by_frequency(const std::map<Value, std::int64_t>& counts, std::int64_t most) {
  std::vector<std::pair<std::int64_t, Value>> sorted;
  sorted.reserve(counts.size());
  for (const auto& [value, count] : counts) sorted.emplace_back(-count, value);
  const auto wanted = std::min(most, static_cast<std::int64_t>(sorted.size()));
  std::partial_sort(sorted.begin(), sorted.begin() + wanted, sorted.end());
  std::vector<Value> values;
  for (std::int64_t i = 0; i < wanted; ++i) values.push_back(std::move(sorted[static_cast<std::size_t>(i)].second));
  return values;
}

void check_moments(const Operation& operation, const Moments& moments) {
  const bool scales = std::holds_alternative<Scale>(operation.how);
  if (moments.count == 0 && !scales)
    fail_at(operation.path, fmt::format("column '{}' has no value there, so it has no mean", operation.column));
  if (moments.nans > 0 && scales)
    fail_at(operation.path, fmt::format("column '{}' has {} values that are NaN; fill or filter them first",
                                        operation.column, moments.nans));
  if (moments.count > 0 && !(std::isfinite(moments.least) && std::isfinite(moments.most)))
    fail_at(operation.path,
            fmt::format("column '{}' has an infinite value; filter such values first", operation.column));
}

// They are written into recipe.json, which is in UTF-8, and are looked up again at prediction.
void check_texts(const Operation& operation, const std::vector<Value>& values) {
  arrow::util::InitializeUTF8();
  for (const Value& value : values) {
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr && !arrow::util::ValidateUTF8(*text))
      fail_at(operation.path, fmt::format("column '{}' has a frequent value that is no text in UTF-8; write the file "
                                          "again, or leave the column out by select",
                                          operation.column));
  }
}

}  // namespace

Statistics::Statistics(const ProcessPlan& plan, const Operations& operations, Limits limits, BatchStore& store)
    : plan_(plan), operations_(operations), limits_(limits), known_(plan.operations.size()) {
  for (const Operation& operation : plan.operations) {
    gathered_.push_back(operation.gathered ? std::make_unique<Gathered>() : nullptr);
    if (!operation.gathered) continue;
    if (has_moments(operation)) gathered_.back()->moments.resize(limits.end - limits.first);
    if (std::holds_alternative<Distinct>(operation.how))
      gathered_.back()->duplicates = std::make_unique<Duplicates>(operation.path, operation.slots, limits.first,
                                                                  limits.end, limits.buckets, store);
  }
}

void Statistics::gather(std::size_t number, const Rows& rows) {
  const Operation& operation = plan_.operations[number];
  Gathered& gathered = *gathered_[number];
  if (has_moments(operation))
    gathered.moments[rows.unit - limits_.first] = moments_of_array(operation.path, rows.slots[operation.slots.front()]);
  else if (gathered.duplicates)
    gathered.duplicates->add(rows);
  else
    count(operation, *as_values(operation.path, rows.slots[operation.slots.front()]), gathered);
}

void Statistics::count(const Operation& operation, const arrow::Array& values, Gathered& gathered) const {
  const auto counted = must(operation.path, compute::ValueCounts(arrow::Datum(values.data())));
  const auto& distinct = *counted->field(0);
  const auto& counts = static_cast<const arrow::Int64Array&>(*counted->field(1));
  const std::lock_guard lock(gathered.mutex);
  for (std::int64_t i = 0; i < distinct.length(); ++i) {
    if (distinct.IsNull(i)) continue;
    Value value = value_at(distinct, i);
    if (!is_nan(value)) add_count(operation, gathered, std::move(value), counts.Value(i));
  }
}

void Statistics::add_count(const Operation& operation, Gathered& gathered, Value value, std::int64_t count) const {
  const auto* text = std::get_if<std::string>(&value);
  const std::int64_t bytes = kCountBytes + (text == nullptr ? 0 : static_cast<std::int64_t>(text->size()));
  const auto [entry, added] = gathered.counts.try_emplace(std::move(value), 0);
  entry->second += count;
  gathered.counts_bytes += added ? bytes : 0;
  if (gathered.counts_bytes > limits_.counts_bytes_max)
    fail_at(operation.path,
            fmt::format("column '{}' has more than {} different values, more than fit into an eighth of the memory "
                        "limit; raise backend.processor.memory_limit_bytes",
                        operation.column, gathered.counts.size()));
}

std::string Statistics::packed(int pass) const {
  Packer packer;
  packer.put(static_cast<std::uint64_t>(limits_.first));
  for (std::size_t number = 0; number < plan_.operations.size(); ++number) {
    if (plan_.operations[number].gathered != pass) continue;
    const Gathered& gathered = *gathered_[number];
    packer.put_list(gathered.moments);
    packer.put(static_cast<std::uint64_t>(gathered.counts.size()));
    for (const auto& [value, count] : gathered.counts) {
      packer.put(static_cast<std::uint8_t>(value.index()));
      std::visit(overloaded{[&](const std::string& text) { packer.put_text(text); }, [&](auto it) { packer.put(it); }},
                 value);
      packer.put(count);
    }
    if (gathered.duplicates) packer.put_text(gathered.duplicates->packed());
  }
  return packer.take();
}

void Statistics::add_packed(int pass, std::string_view packed) {
  Unpacker unpacker(packed);
  const std::uint64_t first = unpacker.get<std::uint64_t>() - limits_.first;
  for (std::size_t number = 0; number < plan_.operations.size(); ++number) {
    const Operation& operation = plan_.operations[number];
    if (operation.gathered != pass) continue;
    Gathered& gathered = *gathered_[number];
    const std::vector<Moments> moments = unpacker.list<Moments>();
    const std::size_t room = gathered.moments.size();
    if (!moments.empty() && (first > room || moments.size() > room - first)) throw_of_others();
    if (!moments.empty())
      std::copy(moments.begin(), moments.end(), gathered.moments.begin() + static_cast<std::ptrdiff_t>(first));
    for (auto left = unpacker.get<std::uint64_t>(); left > 0; --left) {
      Value value = unpacked_value(unpacker);
      add_count(operation, gathered, std::move(value), unpacker.get<std::int64_t>());
    }
    if (gathered.duplicates) gathered.duplicates->add_packed(unpacker.text());
  }
  if (!unpacker.at_end()) throw_of_others();
}

std::vector<std::size_t> Statistics::compared_in(int pass) const {
  std::vector<std::size_t> found;
  for (std::size_t number = 0; number < plan_.operations.size(); ++number)
    if (plan_.operations[number].gathered == pass && gathered_[number]->duplicates) found.push_back(number);
  return found;
}

std::size_t Statistics::compare_parts(std::size_t operation) const {
  return gathered_[operation]->duplicates->buckets();
}

std::string Statistics::compare_part(std::size_t operation, std::size_t part) const {
  Packer packer;
  packer.put_list(gathered_[operation]->duplicates->repeated_in(static_cast<std::uint32_t>(part)));
  return packer.take();
}

void Statistics::add_compared(std::size_t operation, std::string_view packed) {
  Unpacker unpacker(packed);
  gathered_[operation]->duplicates->drop(unpacker.list<Duplicates::Row>());
  if (!unpacker.at_end()) throw_of_others();
}

void Statistics::compare(int pass, std::size_t threads) {
  for (const std::size_t number : compared_in(pass)) {
    Duplicates& duplicates = *gathered_[number]->duplicates;
    for_each_task(duplicates.buckets(), threads, [&](std::size_t bucket) {
      duplicates.drop(duplicates.repeated_in(static_cast<std::uint32_t>(bucket)));
    });
  }
}

void Statistics::finish(int pass) {
  for (std::size_t number = 0; number < plan_.operations.size(); ++number)
    if (plan_.operations[number].gathered == pass) finish_one(number);
}

void Statistics::finish_one(std::size_t number) {
  const Operation& operation = plan_.operations[number];
  Gathered& gathered = *gathered_[number];
  Known& known = known_[number];
  if (has_moments(operation)) {
    for (const Moments& moments : gathered.moments) known.moments.merge(moments);
    check_moments(operation, known.moments);
    if (const auto* scale = std::get_if<Scale>(&operation.how))
      known.scaling = *scale == Scale::zscore ? zscore(known.moments) : minmax(known.moments);
  } else if (gathered.duplicates) {
    known.dropped = gathered.duplicates->dropped();
  } else {
    const auto* of = std::get_if<VocabularyOf>(&operation.how);
    known.values = by_frequency(gathered.counts, of == nullptr ? 1 : of->size);
    if (of == nullptr && known.values.empty())
      fail_at(operation.path, fmt::format("column '{}' has no value there, so it has no mode", operation.column));
    check_texts(operation, known.values);
    known.array = array_of(operation.path, known.values, operations_.type_before(number));
  }
  gathered_[number].reset();
}

nlohmann::json Statistics::to_json() const {
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t number = 0; number < plan_.operations.size(); ++number) {
    const Operation& operation = plan_.operations[number];
    if (!operation.gathered) continue;
    const Known& known = known_[number];
    nlohmann::json one = {{"path", operation.path}, {"column", operation.column}};
    if (is_mean(operation)) {
      one["mean"] = known.moments.mean;
    } else if (const auto* scaled = std::get_if<Scale>(&operation.how)) {
      // null: there was no value
      const bool any = known.moments.count > 0;
      if (*scaled == Scale::zscore)
        one.update({{"mean", known.moments.mean},
                    {"deviation", known.scaling.factor == 0 ? 0.0 : std::sqrt(known.moments.variance())}});
      if (*scaled == Scale::minmax)
        one.update({{"least", any ? nlohmann::json(known.moments.least) : nlohmann::json()},
                    {"most", any ? nlohmann::json(known.moments.most) : nlohmann::json()}});
    } else if (std::holds_alternative<Distinct>(operation.how)) {
      std::size_t dropped = 0;
      for (const auto& unit : known.dropped) dropped += unit.size();
      one["dropped"] = dropped;
    } else {
      one["values"] = nlohmann::json::array();
      for (const Value& value : known.values)
        one["values"].push_back(std::visit([](const auto& it) { return nlohmann::json(it); }, value));
    }
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace dtrain::data
