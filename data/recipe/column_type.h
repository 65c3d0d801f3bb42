#pragma once
// Types of columns, as a recipe names them. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::data {

enum class ColumnType {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  float32,
  float64,
  text,
  other,  // lists, times and the rest: such columns pass through
};

// "float32"; nothing for other words, and for `other`.
std::optional<ColumnType> column_type_of(std::string_view name);
std::string name_of(ColumnType type);
// All that column_type_of() knows, with commas.
std::string column_type_names();

constexpr bool is_integer(ColumnType type) { return type >= ColumnType::int8 && type <= ColumnType::uint64; }
constexpr bool is_float(ColumnType type) { return type >= ColumnType::float16 && type <= ColumnType::float64; }
constexpr bool is_number(ColumnType type) { return is_integer(type) || is_float(type); }

// Bytes of a value; 0: it varies, or is not known.
std::int64_t value_bytes(ColumnType type);

struct SourceColumn {
  std::string name;
  ColumnType type = ColumnType::other;
  std::string type_name;  // for people: also of types that are `other` here
};

}  // namespace dtrain::data
