#pragma once
// A narrower type for gradients while they are reduced.

namespace dtrain {

// The type in which float32 and float64 gradients are reduced. none: their own type.
enum class GradientCompression { none, fp16, bf16 };

}  // namespace dtrain
