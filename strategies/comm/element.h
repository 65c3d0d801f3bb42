#pragma once
// Element types and reductions of our collectives, without torch.h.
#include <cstddef>
#include <cstdint>

namespace dtrain {

enum class ElementType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

// avg is not defined for integers and bool. For bool, sum and max are "or", product and min are "and".
enum class Reduction : std::uint8_t { sum, avg, product, min, max };

std::size_t size_of(ElementType type);
const char* name_of(ElementType type);
const char* name_of(Reduction reduction);
bool is_floating(ElementType type);

}  // namespace dtrain
