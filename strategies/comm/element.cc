// Names and sizes of element types; see element.h.
#include "strategies/comm/element.h"

namespace dtrain {

std::size_t size_of(ElementType type) {
  switch (type) {
    case ElementType::f64:
    case ElementType::i64:
      return 8;
    case ElementType::f32:
    case ElementType::i32:
      return 4;
    case ElementType::f16:
    case ElementType::bf16:
    case ElementType::i16:
      return 2;
    case ElementType::i8:
    case ElementType::u8:
    case ElementType::boolean:
      return 1;
  }
  return 0;
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return "float64";
    case ElementType::f32:
      return "float32";
    case ElementType::f16:
      return "float16";
    case ElementType::bf16:
      return "bfloat16";
    case ElementType::i64:
      return "int64";
    case ElementType::i32:
      return "int32";
    case ElementType::i16:
      return "int16";
    case ElementType::i8:
      return "int8";
    case ElementType::u8:
      return "uint8";
    case ElementType::boolean:
      return "bool";
  }
  return "?";
}

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::avg:
      return "avg";
    case Reduction::product:
      return "product";
    case Reduction::min:
      return "min";
    case Reduction::max:
      return "max";
  }
  return "?";
}

bool is_floating(ElementType type) {
  return type == ElementType::f64 || type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

}  // namespace dtrain
