#pragma once
// What a row is in memory: the values of its columns, one after the other, without gaps. Columns whose rows differ in
// length (ragged ones) are not in it; TailHeap has them. Pure.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

enum class ElementType { boolean, uint8, int8, int16, int32, int64, float16, float32, float64 };

constexpr std::size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::boolean:
    case ElementType::uint8:
    case ElementType::int8:
      return 1;
    case ElementType::int16:
    case ElementType::float16:
      return 2;
    case ElementType::int32:
    case ElementType::float32:
      return 4;
    default:
      return 8;
  }
}

// As numpy names them.
constexpr const char* element_type_name(ElementType type) {
  constexpr const char* names[] = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"};
  return names[static_cast<std::size_t>(type)];
}

struct Column {
  std::string name;
  ElementType type;
  std::int64_t list_size = 0;  // values of each row, in a column of fixed-size lists; 0: one value, and no list
  bool ragged = false;         // strings, binary, and lists: each row has as many values as it likes
  bool texts = false;          // lists of strings or binary. It is ragged, and its values are the strings' bytes

  std::optional<double> fill = std::nullopt;  // in place of null values; a null string or list is then an empty one
  std::string time = {};                      // of times: which kind, and in which unit the numbers are

  // For errors: what each of its values is.
  std::string element_name() const { return time.empty() ? element_type_name(type) : time; }
  // In a row's fixed part.
  std::size_t bytes() const {
    return ragged ? 0 : element_bytes(type) * static_cast<std::size_t>(list_size == 0 ? 1 : list_size);
  }
};

// What one row group has of a column.
struct ColumnSpan {
  const std::byte* values = nullptr;      // of all rows, side by side. A boolean is a byte
  const std::int64_t* offsets = nullptr;  // ragged: row i has the values from offsets[i] to offsets[i + 1]
};

// Of a column of lists of strings, what is beside the bytes: how many bytes each of a row's strings has. Parquet has no
// longer strings.
inline Column text_lengths(const Column& texts) {
  return {.name = texts.name, .type = ElementType::int32, .ragged = true};
}

// Columns that lie side by side in a row and become one tensor. A ragged one is alone, and becomes two tensors. Lists
// of strings are two ragged columns, the bytes and text_lengths(), and become three tensors.
struct TensorColumns {
  std::string name;
  std::vector<Column> columns;
  bool matrix = false;  // the tensor has a dimension for the columns

  bool ragged() const { return columns.front().ragged; }
  bool texts() const { return columns.front().texts; }
  std::size_t tensors() const { return texts() ? 3 : ragged() ? 2 : 1; }
};

struct Piece {
  std::size_t offset = 0, bytes = 0;
};

struct RowLayout {
  std::size_t bytes = 0;
  std::vector<Piece> columns;  // of all tensors, one after the other
  std::vector<Piece> tensors;
  std::vector<std::size_t> ragged;   // the numbers of the ragged columns
  std::vector<std::size_t> element;  // bytes of a value of each of them

  explicit RowLayout(const std::vector<TensorColumns>& of) {
    for (const TensorColumns& tensor : of) {
      const std::size_t begin = bytes;
      for (const Column& column : tensor.columns) {
        if (column.ragged) {
          ragged.push_back(columns.size());
          element.push_back(element_bytes(column.type));
        }
        columns.push_back({bytes, column.bytes()});
        bytes += column.bytes();
      }
      tensors.push_back({begin, bytes - begin});
    }
  }
};

}  // namespace dtrain::data
