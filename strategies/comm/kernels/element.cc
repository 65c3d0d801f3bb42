// Names and sizes of element types; see element.h.
#include "strategies/comm/kernels/element.h"

namespace dtrain {
namespace {

enum class Family : std::uint8_t { floating, complex, integer };

struct Facts {
  const char* name;
  std::size_t size;
  Family family;
};

Facts facts_of(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return {"float64", 8, Family::floating};
    case ElementType::f32:
      return {"float32", 4, Family::floating};
    case ElementType::f16:
      return {"float16", 2, Family::floating};
    case ElementType::bf16:
      return {"bfloat16", 2, Family::floating};
    case ElementType::c128:
      return {"complex128", 16, Family::complex};
    case ElementType::c64:
      return {"complex64", 8, Family::complex};
    case ElementType::i64:
      return {"int64", 8, Family::integer};
    case ElementType::i32:
      return {"int32", 4, Family::integer};
    case ElementType::i16:
      return {"int16", 2, Family::integer};
    case ElementType::i8:
      return {"int8", 1, Family::integer};
    case ElementType::u64:
      return {"uint64", 8, Family::integer};
    case ElementType::u32:
      return {"uint32", 4, Family::integer};
    case ElementType::u16:
      return {"uint16", 2, Family::integer};
    case ElementType::u8:
      return {"uint8", 1, Family::integer};
    case ElementType::boolean:
      return {"bool", 1, Family::integer};
  }
  return {"?", 0, Family::integer};
}

}  // namespace

std::size_t size_of(ElementType type) { return facts_of(type).size; }

const char* name_of(ElementType type) { return facts_of(type).name; }

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
    case Reduction::band:
      return "band";
    case Reduction::bor:
      return "bor";
    case Reduction::bxor:
      return "bxor";
  }
  return "?";
}

bool is_defined(Reduction reduction, ElementType type) {
  const Family family = facts_of(type).family;
  switch (reduction) {
    case Reduction::sum:
    case Reduction::product:
      return true;
    case Reduction::avg:
      return family != Family::integer;
    case Reduction::min:
    case Reduction::max:
      return family != Family::complex;
    case Reduction::band:
    case Reduction::bor:
    case Reduction::bxor:
      return family == Family::integer;
  }
  return false;
}

}  // namespace dtrain
