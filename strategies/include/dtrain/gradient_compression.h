#pragma once
// A narrower type for gradients on their way.

namespace dtrain {

// What the gradients of float parameters are while they are reduced.
enum class GradientCompression { none, fp16, bf16 };

}  // namespace dtrain
