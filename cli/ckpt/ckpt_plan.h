#pragma once
// Which files a checkpoint's model becomes when `dtrain ckpt` writes it anew. The files are those that
// strategies/checkpoint would write, to the byte, for the same tensors in the same order. Pure.
#include <string>
#include <utility>
#include <vector>

#include "cli/ckpt/ckpt_files.h"

namespace dtrain::cli {

struct CkptRewrite {
  // Of floating tensors: "BF16"; empty: as they are.
  std::string type{};
  // Beginnings of names: from, to. The first that fits counts.
  std::vector<std::pair<std::string, std::string>> renames{};
  // Of the tensors of a file with several; 0: one file.
  std::uint64_t max_bytes = 0;
};

struct CkptMove {
  std::size_t file = 0, tensor = 0;  // where it is: ckpt.files[file].tensors[tensor]
  std::string name, type;            // in the new file
  std::uint64_t bytes = 0;
};

struct CkptNewFile {
  std::string name;
  std::string head;  // length and header
  std::vector<CkptMove> tensors;
  std::uint64_t bytes() const;
};

struct CkptPlan {
  std::vector<CkptNewFile> files;
  std::string index;  // the text of model.safetensors.index.json; empty: there is one file
};

// Errors: there is no model, two tensors get one name, or a rename fits no tensor.
Result<CkptPlan> plan_ckpt(const Ckpt& ckpt, const CkptRewrite& rewrite);

}  // namespace dtrain::cli
