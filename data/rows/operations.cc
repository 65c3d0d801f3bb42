#include "data/rows/operations.h"

#include <arrow/array/builder_base.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/compute/api.h>
#include <arrow/type_traits.h>
#include <arrow/util/bitmap_ops.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "data/arrow/arrow_calls.h"
#include "data/source/source.h"

namespace dtrain::data {
namespace {

namespace compute = arrow::compute;

std::shared_ptr<arrow::Array> array_from(const std::string& where, arrow::Result<arrow::Datum> datum) {
  return must(where, std::move(datum)).make_array();
}

const char* function_of(Comparison op) {
  constexpr std::array<const char*, 6> kNames = {"equal",      "not_equal", "less",
                                                 "less_equal", "greater",   "greater_equal"};
  return kNames.at(static_cast<std::size_t>(op));
}

// Looks at the mask once, not for each column: with random rows that is half of the time.
void keep(const std::string& where, const arrow::Array& mask, Rows& rows) {
  const auto& kept = static_cast<const arrow::BooleanArray&>(mask);
  arrow::UInt32Builder places;
  must(where, places.Reserve(kept.length()));
  for (std::int64_t row = 0; row < kept.length(); ++row)
    if (kept.IsValid(row) && kept.Value(row)) places.UnsafeAppend(static_cast<std::uint32_t>(row));
  if (places.length() == kept.length()) return;
  const auto order = must(where, places.Finish());
  const auto taken = [&](const arrow::Array& values) {
    return must(where, compute::Take(values, *order, compute::TakeOptions::NoBoundsCheck()));
  };
  rows.numbers = std::static_pointer_cast<arrow::UInt32Array>(taken(*rows.numbers));
  for (auto& slot : rows.slots)
    if (slot) slot = taken(*slot);
}

template <typename T>
std::span<const T> values_of_array(const arrow::Array& array) {
  return {static_cast<const arrow::NumericArray<typename arrow::CTypeTraits<T>::ArrowType>&>(array).raw_values(),
          static_cast<std::size_t>(array.length())};
}

// An array with the nulls of `like`.
std::shared_ptr<arrow::Array> with_nulls_of(const arrow::Array& like, const std::shared_ptr<arrow::DataType>& type,
                                            std::shared_ptr<arrow::Buffer> values, const std::string& where) {
  std::shared_ptr<arrow::Buffer> valid;
  if (like.null_count() > 0)
    valid = like.offset() == 0
                ? like.null_bitmap()
                : must(where, arrow::internal::CopyBitmap(arrow::default_memory_pool(), like.null_bitmap_data(),
                                                          like.offset(), like.length()));
  return arrow::MakeArray(
      arrow::ArrayData::Make(type, like.length(), {std::move(valid), std::move(values)}, like.null_count()));
}

}  // namespace

std::shared_ptr<arrow::Array> as_floats(const std::string& where, const std::shared_ptr<arrow::Array>& numbers) {
  if (numbers->type_id() == arrow::Type::FLOAT || numbers->type_id() == arrow::Type::DOUBLE) return numbers;
  return must(where, compute::Cast(*numbers, arrow::float64(), compute::CastOptions::Unsafe()));
}

std::shared_ptr<arrow::Array> array_of(const std::string& where, const std::vector<Value>& values,
                                       const std::shared_ptr<arrow::DataType>& type) {
  const auto builder = must(where, arrow::MakeBuilder(type));
  for (const Value& value : values) {
    const auto scalar = std::visit([](const auto& one) { return arrow::MakeScalar(one); }, value);
    must(where, builder->AppendScalar(*must(where, compute::Cast(arrow::Datum(scalar), type)).scalar()));
  }
  return must(where, builder->Finish());
}

Operations::Operations(const ProcessPlan& plan, std::vector<std::shared_ptr<arrow::DataType>> types, Where where)
    : plan_(plan), types_(std::move(types)), constants_(plan.operations.size()), where_(std::move(where)) {
  for (std::size_t i = 0; i < plan.operations.size(); ++i) {
    const Operation& operation = plan.operations[i];
    auto& type = types_[operation.slots.front()];
    before_.push_back(type);
    if (const auto* to = std::get_if<ColumnType>(&operation.how)) {
      type = arrow_type(*to);
    } else if (const auto* conditions = std::get_if<std::vector<Condition>>(&operation.how)) {
      for (const Condition& condition : *conditions)
        constants_[i].push_back(std::visit([](const auto& one) { return arrow::MakeScalar(one); }, condition.value));
    } else if (const auto* fill = std::get_if<FillTo>(&operation.how)) {
      if (const auto* value = std::get_if<Value>(&fill->with))
        constants_[i].push_back(scalar(*value, type, operation.path));
    } else if (std::holds_alternative<Scale>(operation.how)) {
      type = type->id() == arrow::Type::DOUBLE ? arrow::float64() : arrow::float32();
    } else if (const auto* of = std::get_if<VocabularyOf>(&operation.how)) {
      type = arrow::int32();
      if (of->one_hot) type = arrow::fixed_size_list(arrow::uint8(), static_cast<std::int32_t>(of->size + 1));
    }
  }
}

std::shared_ptr<arrow::Scalar> Operations::scalar(const Value& value, const std::shared_ptr<arrow::DataType>& type,
                                                  const std::string& path) const {
  const auto made = std::visit([](const auto& one) { return arrow::MakeScalar(one); }, value);
  const auto cast = compute::Cast(arrow::Datum(made), type);
  if (!cast.ok())
    throw RecipeError(path, fmt::format("{} is no value of a column of {}; cast the column first", made->ToString(),
                                        type->ToString()));
  return cast->scalar();
}

void Operations::apply(std::size_t number, const Known& known, Rows& rows) const {
  const Operation& operation = plan_.operations[number];
  if (std::holds_alternative<ColumnType>(operation.how))
    cast(operation, rows);
  else if (std::holds_alternative<std::vector<Condition>>(operation.how))
    filter(number, rows);
  else if (std::holds_alternative<FillTo>(operation.how))
    fill(number, known, rows);
  else if (std::holds_alternative<Scale>(operation.how))
    normalize(operation, known, rows);
  else if (std::holds_alternative<VocabularyOf>(operation.how))
    index(operation, known, rows);
  else
    drop(operation, known, rows);
}

void Operations::cast(const Operation& operation, Rows& rows) const {
  auto& slot = rows.slots[operation.slots.front()];
  const auto type = arrow_type(std::get<ColumnType>(operation.how));
  if (slot->type()->Equals(*type)) return;
  // Digits of a float may go in a smaller float; whatever else would change a value is an error.
  const auto options = compute::CastOptions::Safe();
  const auto whole = compute::Cast(*slot, type, options);
  if (whole.ok()) {
    slot = *whole;
    return;
  }
  for (std::int64_t row = 0; row < slot->length(); ++row) {
    const auto one = compute::Cast(*slot->Slice(row, 1), type, options);
    if (!one.ok())
      fail_at(operation.path,
              fmt::format("{}: {}", where_(rows.unit, rows.numbers->Value(row)), one.status().message()));
  }
  fail_at(operation.path, whole.status().message());
}

void Operations::filter(std::size_t number, Rows& rows) const {
  const Operation& operation = plan_.operations[number];
  const auto& conditions = std::get<std::vector<Condition>>(operation.how);
  arrow::Datum mask;
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    auto values = rows.slots[operation.slots[i]];
    if (values->type_id() == arrow::Type::HALF_FLOAT)  // Arrow compares no floats of 16 bits
      values = must(operation.path, compute::Cast(*values, arrow::float32()));
    arrow::Datum holds =
        must(operation.path, compute::CallFunction(function_of(conditions[i].op), {values, constants_[number][i]}));
    mask = i == 0 ? std::move(holds) : must(operation.path, compute::CallFunction("and", {mask, holds}));
  }
  keep(operation.path, *mask.make_array(), rows);
}

void Operations::fill(std::size_t number, const Known& known, Rows& rows) const {
  const Operation& operation = plan_.operations[number];
  const auto& with = std::get<FillTo>(operation.how).with;
  auto& slot = rows.slots[operation.slots.front()];
  arrow::Datum value;
  if (std::holds_alternative<Value>(with))
    value = constants_[number].front();
  else if (std::get<FillWith>(with) == FillWith::mean)
    value = scalar(known.moments.mean, slot->type(), operation.path);
  else
    value = scalar(known.values.front(), slot->type(), operation.path);
  const bool floats = arrow::is_floating(slot->type_id());
  if (!floats && slot->null_count() == 0) return;
  const compute::NullOptions missing(/*nan_is_null=*/true);
  const auto mask = must(operation.path, compute::CallFunction("is_null", {slot}, &missing));
  slot = array_from(operation.path, compute::CallFunction("if_else", {mask, value, slot}));
}

void Operations::normalize(const Operation& operation, const Known& known, Rows& rows) const {
  auto& slot = rows.slots[operation.slots.front()];
  const bool to_double = slot->type_id() == arrow::Type::DOUBLE;
  const auto numbers = as_floats(operation.path, slot);
  const std::int64_t bytes = numbers->length() * (to_double ? 8 : 4);
  const std::shared_ptr<arrow::Buffer> out = must(operation.path, arrow::AllocateBuffer(bytes));
  if (to_double)
    scale(values_of_array<double>(*numbers), known.scaling, reinterpret_cast<double*>(out->mutable_data()));
  else if (numbers->type_id() == arrow::Type::DOUBLE)
    scale(values_of_array<double>(*numbers), known.scaling, reinterpret_cast<float*>(out->mutable_data()));
  else
    scale(values_of_array<float>(*numbers), known.scaling, reinterpret_cast<float*>(out->mutable_data()));
  slot = with_nulls_of(*numbers, to_double ? arrow::float64() : arrow::float32(), out, operation.path);
}

void Operations::index(const Operation& operation, const Known& known, Rows& rows) const {
  auto& slot = rows.slots[operation.slots.front()];
  const auto& of = std::get<VocabularyOf>(operation.how);
  const compute::SetLookupOptions lookup(known.array);
  const auto found = array_from(operation.path, compute::CallFunction("index_in", {slot}, &lookup));
  const auto& places = static_cast<const arrow::Int32Array&>(*found);
  const std::int64_t count = places.length();
  const auto number_of = [&](std::int64_t row) { return places.IsNull(row) ? 0 : places.Value(row) + 1; };
  if (!of.one_hot) {
    const std::shared_ptr<arrow::Buffer> out = must(operation.path, arrow::AllocateBuffer(count * 4));
    auto* numbers = reinterpret_cast<std::int32_t*>(out->mutable_data());
    for (std::int64_t row = 0; row < count; ++row) numbers[row] = number_of(row);
    slot = std::make_shared<arrow::Int32Array>(count, out);
    return;
  }
  const std::int64_t width = of.size + 1;
  const std::shared_ptr<arrow::Buffer> out = must(operation.path, arrow::AllocateBuffer(count * width));
  std::fill_n(out->mutable_data(), count * width, std::uint8_t{0});
  for (std::int64_t row = 0; row < count; ++row) out->mutable_data()[row * width + number_of(row)] = 1;
  slot = std::make_shared<arrow::FixedSizeListArray>(
      arrow::fixed_size_list(arrow::uint8(), static_cast<std::int32_t>(width)), count,
      std::make_shared<arrow::UInt8Array>(count * width, out));
}

void Operations::drop(const Operation& operation, const Known& known, Rows& rows) const {
  const std::vector<std::uint32_t>& dropped = known.dropped[rows.unit];
  if (dropped.empty()) return;
  arrow::BooleanBuilder mask;
  must(operation.path, mask.Reserve(rows.count()));
  auto next = dropped.begin();
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    const std::uint32_t number = rows.numbers->Value(row);
    next = std::lower_bound(next, dropped.end(), number);
    mask.UnsafeAppend(next == dropped.end() || *next != number);
  }
  keep(operation.path, *must(operation.path, mask.Finish()), rows);
}

}  // namespace dtrain::data
