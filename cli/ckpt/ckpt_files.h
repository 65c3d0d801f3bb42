#pragma once
// The files of a checkpoint, found and read.
#include <optional>
#include <string>
#include <vector>

#include "cli/ckpt/ckpt_wire.h"

namespace dtrain::cli {

struct CkptFile {
  std::string name;
  std::string path;
  std::uint64_t bytes = 0;
  std::vector<CkptTensor> tensors;
  std::map<std::string, std::uint32_t> sums;  // as dtrain.json has them; empty: there is none
  std::string damage;                         // why the file is refused; empty: it is fine
};

struct Ckpt {
  std::string path;
  std::optional<CkptManifest> manifest;  // none: plain safetensors files
  std::vector<CkptFile> files;
  std::string damage;  // of dtrain.json or the index; empty: none

  // The first damage, with the file's name. Empty: none is known.
  std::string first_damage() const;
};

// What lies at `path`: a file, an index, the folder of a step, a folder with steps (the newest), or one as Hugging
// Face's libraries write it. Reads headers alone. Errors: nothing is there, or it cannot be read.
Result<Ckpt> open_ckpt(const std::string& path);

// Reads each tensor that has a sum, and compares.
void verify_ckpt(Ckpt& ckpt);

}  // namespace dtrain::cli
