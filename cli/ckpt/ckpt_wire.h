#pragma once
// What a checkpoint's files say of themselves: a safetensors header, dtrain.json, Hugging Face's index. The other side
// is strategies/checkpoint; test/golden/checkpoint has files that both sides read. Pure.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

inline constexpr std::uint64_t kCkptHeaderMax = 100'000'000;  // safetensors' own limit
inline constexpr std::size_t kCkptManifestMax = std::size_t{256} << 20;

struct CkptTensor {
  std::string name;
  std::string type;  // "F32"
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, bytes = 0;  // from the start of the file
};

// Bits of an element; 0: safetensors has no such type.
unsigned ckpt_bits(std::string_view type);

// The length that the first eight bytes of a file announce.
Result<std::uint64_t> ckpt_header_length(std::string_view first, std::uint64_t file_bytes);
// The tensors, in the order of the file. They cover the rest of the file without gaps and overlaps.
Result<std::vector<CkptTensor>> read_ckpt_header(std::string_view header, std::uint64_t file_bytes);

struct CkptManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::map<std::string, std::uint32_t> sums;  // CRC-32C by tensor
};

struct CkptManifest {
  std::int64_t step = 0;
  int world_size = 0;
  std::vector<CkptManifestFile> files;
  std::string extra;  // JSON; empty: none
};

Result<CkptManifest> read_ckpt_manifest(std::string_view text);
// The file of each tensor, as an index has them.
Result<std::map<std::string, std::string>> read_ckpt_index(std::string_view text);

}  // namespace dtrain::cli
