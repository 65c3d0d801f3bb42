#pragma once
// The element types of safetensors files, and the error of everything below Checkpoints. Pure.
#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace dtrain::checkpoint {

// A checkpoint, a file or a piece is refused. what() is a part of a sentence: Checkpoints puts "dtrain:" and the
// checkpoint before it.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StoredType {
  std::string_view name;
  int bits;
};

// All that safetensors knows. Checkpoints itself writes and reads those of pieces.h.
inline constexpr StoredType kStoredTypes[] = {
    {"F64", 64},        {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},    {"I32", 32},
    {"I16", 16},        {"I8", 8},      {"U8", 8},      {"BOOL", 8},    {"U16", 16},    {"U32", 32},
    {"U64", 64},        {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
};

// nullptr: safetensors has no such type.
constexpr const StoredType* stored_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes)
    if (type.name == name) return &type;
  return nullptr;
}

}  // namespace dtrain::checkpoint
