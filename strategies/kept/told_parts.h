#pragma once
// Where the ranks have what they kept of tensors that some rank lacks a part of. They tell each other, as text. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::kept {

// The elements of a tensor that a rank has in its slot.
struct ToldPart {
  std::size_t index = 0;               // of the piece
  std::uint64_t begin = 0, count = 0;  // in the whole tensor
  std::uint64_t at = 0;                // bytes, in the slot
  bool operator==(const ToldPart&) const = default;
};

struct ToldParts {
  std::uint64_t value_bytes = 0;  // of the slot
  std::vector<ToldPart> parts;
};

std::string told_text(const ToldParts& told);
ToldParts parse_told(const std::string& text);

// The first element of the tensor that no rank has. Nothing: the ranks together have all of it.
std::optional<std::uint64_t> missing_element(const std::vector<ToldParts>& of_ranks, std::size_t index,
                                             std::uint64_t elements);

}  // namespace dtrain::kept
