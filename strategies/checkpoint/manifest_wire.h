#pragma once
// dtrain.json, which makes a folder a complete checkpoint: the step, the files with their sizes, each tensor's CRC-32C,
// and what the program added. Pure.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/checkpoint/stored_type.h"

namespace dtrain::checkpoint {

inline constexpr const char* kManifestName = "dtrain.json";
inline constexpr std::uint64_t kManifestBytesMax = std::uint64_t{256} << 20;

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::map<std::string, std::uint32_t> sums;  // by tensor
};

struct Manifest {
  std::int64_t step = 0;
  int world_size = 1;
  std::vector<ManifestFile> files;
  std::string extra;  // JSON; empty: none
};

// Throws Refused: `extra` is no JSON.
std::string manifest_text(const Manifest& manifest);
// Throws Refused: it is damaged, of a version that this dtrain does not read, or names a file of another folder.
Manifest parse_manifest(std::string_view text);

// Hugging Face's index: the files that it names, once each, in their order. Throws Refused.
std::vector<std::string> files_of_index(std::string_view text);

}  // namespace dtrain::checkpoint
