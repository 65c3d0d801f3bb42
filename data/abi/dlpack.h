#pragma once
// DLPack's tensor in memory, as its specification (dmlc.github.io/dlpack) lays it down: what passes tensors from one
// library to another.
#include <cstdint>

struct DLManagedTensor {
  struct {
    void* data;
    struct {
      std::int32_t type, id;
    } device;
    std::int32_t dimensions;
    struct {
      std::uint8_t code, bits;
      std::uint16_t lanes;
    } element;
    std::int64_t* shape;
    std::int64_t* strides;  // null: the last dimension lies side by side, and so on
    std::uint64_t byte_offset;
  } tensor;
  void* context;
  void (*deleter)(DLManagedTensor* self);
};

namespace dtrain::data {

inline constexpr std::int32_t dlpack_cpu = 1;
enum DlpackCode : std::uint8_t { dlpack_int = 0, dlpack_uint = 1, dlpack_float = 2, dlpack_bool = 6 };

}  // namespace dtrain::data
