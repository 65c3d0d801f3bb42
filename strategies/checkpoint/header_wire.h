#pragma once
// The header of a safetensors file: eight bytes with its length, then JSON that says where each tensor lies. Pure.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/checkpoint/stored_type.h"

namespace dtrain::checkpoint {

inline constexpr std::size_t kLengthBytes = 8;
inline constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // safetensors' own limit

struct HeaderTensor {
  std::string name;
  const StoredType* type = nullptr;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, bytes = 0;  // from the start of the file
  // Where it begins in a larger tensor of that name, by dimension, as torch.distributed.checkpoint says in the
  // metadata.
  std::vector<std::int64_t> offsets{};
};

// The product of the sizes. Throws Refused: a size is below 0, or the product above 2^63 - 1.
std::uint64_t elements_of(const std::vector<std::int64_t>& shape);
// A name of others in a message: control characters as \xNN, and cut where it is long.
std::string shown(std::string_view name);
// "[2, 3]"
std::string shape_text(const std::vector<std::int64_t>& shape);

// The length that the first eight bytes of a file of `file_bytes` bytes announce. Throws Refused.
std::uint64_t header_length(std::string_view first_eight, std::uint64_t file_bytes);
// The tensors of a header of that length, in the order of the file. They cover the rest of the file without gaps and
// overlaps, as safetensors demands. Throws Refused.
std::vector<HeaderTensor> parse_header(std::string_view header, std::uint64_t file_bytes);

// Length and header, padded with blanks so that the data begins at a multiple of 64. `tensors` have their places
// relative to the start of the data. Throws Refused: a name is not UTF-8, or there are too many for one file.
std::string header_text(const std::vector<HeaderTensor>& tensors);

// JSON of others. Throws Refused: it is none, is deeper than `depth`, or an object has a name twice.
nlohmann::json parse_json(std::string_view text, int depth);
// A name as JSON, quoted. Throws Refused where it is not UTF-8.
std::string json_word(const std::string& name);

}  // namespace dtrain::checkpoint
