#include "data/recipe/column_type.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace dtrain::data {
namespace {

struct TypeRow {
  const char* name;
  std::int64_t bytes;
};

// In the order of ColumnType.
constexpr std::array<TypeRow, 13> kTypes = {{{"bool", 1},
                                             {"int8", 1},
                                             {"int16", 2},
                                             {"int32", 4},
                                             {"int64", 8},
                                             {"uint8", 1},
                                             {"uint16", 2},
                                             {"uint32", 4},
                                             {"uint64", 8},
                                             {"float16", 2},
                                             {"float32", 4},
                                             {"float64", 8},
                                             {"string", 0}}};

}  // namespace

std::optional<ColumnType> column_type_of(std::string_view name) {
  for (std::size_t at = 0; at < kTypes.size(); ++at)
    if (name == kTypes[at].name) return static_cast<ColumnType>(at);
  return std::nullopt;
}

std::string name_of(ColumnType type) {
  const auto at = static_cast<std::size_t>(type);
  return at < kTypes.size() ? kTypes[at].name : "another type";
}

std::string column_type_names() {
  std::string names;
  for (const TypeRow& row : kTypes) names.append(names.empty() ? "" : ", ").append(row.name);
  return names;
}

std::int64_t value_bytes(ColumnType type) {
  const auto at = static_cast<std::size_t>(type);
  return at < kTypes.size() ? kTypes[at].bytes : 0;
}

}  // namespace dtrain::data
