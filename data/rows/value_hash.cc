#include "data/rows/value_hash.h"

#include <arrow/type_traits.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "data/arrow/arrow_calls.h"
#include "data/base/random_bits.h"

namespace dtrain::data {
namespace {

constexpr std::uint64_t kNull = 0x6E756C6C;

std::uint64_t bits_of(double value) {
  if (value == 0) return 0;
  return std::isnan(value) ? UINT64_MAX : std::bit_cast<std::uint64_t>(value);
}

std::uint64_t bits_of(std::string_view text) {
  std::uint64_t hash = mixed(text.size() + 1);
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(text.size(), sizeof word);
    std::memcpy(&word, text.data(), size);
    hash = mixed(hash ^ word);
    text.remove_prefix(size);
  }
  return hash;
}

template <typename Array, typename Bits>
void mix_values(const Array& array, std::vector<std::uint64_t>& hashes, const Bits& bits) {
  for (std::int64_t row = 0; row < array.length(); ++row) {
    std::uint64_t& hash = hashes[static_cast<std::size_t>(row)];
    const std::uint64_t value = array.IsNull(row) ? kNull : mixed(bits(array, row));
    hash = mixed(hash * 31 + value);
  }
}

}  // namespace

void mix_in(const std::string& where, const arrow::Array& column, std::vector<std::uint64_t>& hashes) {
  const auto visit = [&]<typename Type>(const Type&) {
    using Array = typename arrow::TypeTraits<Type>::ArrayType;
    const auto& array = static_cast<const Array&>(column);
    if constexpr (std::is_same_v<Type, arrow::HalfFloatType>) {
      mix_values(array, hashes, [](const Array& of, std::int64_t row) {
        return bits_of(arrow::util::Float16::FromBits(of.Value(row)).ToDouble());
      });
    } else if constexpr (arrow::is_floating_type<Type>::value) {
      mix_values(array, hashes,
                 [](const Array& of, std::int64_t row) { return bits_of(static_cast<double>(of.Value(row))); });
    } else if constexpr (arrow::is_integer_type<Type>::value || arrow::is_boolean_type<Type>::value) {
      mix_values(array, hashes,
                 [](const Array& of, std::int64_t row) { return static_cast<std::uint64_t>(of.Value(row)); });
    } else {
      mix_values(array, hashes, [](const Array& of, std::int64_t row) { return bits_of(of.GetView(row)); });
    }
  };
  switch (column.type_id()) {
    case arrow::Type::BOOL:
      return visit(arrow::BooleanType());
    case arrow::Type::INT8:
      return visit(arrow::Int8Type());
    case arrow::Type::INT16:
      return visit(arrow::Int16Type());
    case arrow::Type::INT32:
      return visit(arrow::Int32Type());
    case arrow::Type::INT64:
      return visit(arrow::Int64Type());
    case arrow::Type::UINT8:
      return visit(arrow::UInt8Type());
    case arrow::Type::UINT16:
      return visit(arrow::UInt16Type());
    case arrow::Type::UINT32:
      return visit(arrow::UInt32Type());
    case arrow::Type::UINT64:
      return visit(arrow::UInt64Type());
    case arrow::Type::HALF_FLOAT:
      return visit(arrow::HalfFloatType());
    case arrow::Type::FLOAT:
      return visit(arrow::FloatType());
    case arrow::Type::DOUBLE:
      return visit(arrow::DoubleType());
    case arrow::Type::STRING:
      return visit(arrow::StringType());
    case arrow::Type::LARGE_STRING:
      return visit(arrow::LargeStringType());
    default:
      fail_at(where, fmt::format("values of {} are not compared", column.type()->ToString()));
  }
}

}  // namespace dtrain::data
