#pragma once
// Floating-point numbers as safetensors stores them, from one type into another. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dtrain::cli {

enum class CkptFloat { f64, f32, f16, bf16 };

// "BF16"; none: another type.
std::optional<CkptFloat> ckpt_float(std::string_view type);
// 8, 4 or 2 bytes.
std::size_t ckpt_float_bytes(CkptFloat type);

// Appends the elements of `in` as `to`, rounded to the nearest number, of two nearest ones to the even one. A NaN stays
// a NaN. `in` is a whole number of elements. Returns how many finite numbers became infinite.
std::uint64_t convert_elements(CkptFloat from, CkptFloat to, std::string_view in, std::string& out);

}  // namespace dtrain::cli
