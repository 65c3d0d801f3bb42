#pragma once
// Element types and reductions of our collectives, without torch.h.
#include <cstddef>
#include <cstdint>

namespace dtrain {

// c64 and c128 are pairs of f32 and f64: real part, imaginary part.
enum class ElementType : std::uint8_t { f64, f32, f16, bf16, c128, c64, i64, i32, i16, i8, u64, u32, u16, u8, boolean };

// For bool: sum, max and bor are "or", product, min and band are "and".
enum class Reduction : std::uint8_t { sum, avg, product, min, max, band, bor, bxor };

std::size_t size_of(ElementType type);
const char* name_of(ElementType type);
const char* name_of(Reduction reduction);

// Whether the reduction means something for the type: avg not for integers and bool, min and max not for complex
// numbers, the bitwise ones for integers and bool alone.
bool is_defined(Reduction reduction, ElementType type);

}  // namespace dtrain
