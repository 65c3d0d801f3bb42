#pragma once
// Which files the input consists of.
#include <optional>
#include <string>
#include <vector>

#include "data/files/data_files.h"
#include "data/recipe/recipe.h"

namespace dtrain::data {

struct SourceFiles {
  std::vector<DataFile> files;
  InputFormat format;
};

// As find_files() finds them. Throws DataError as it does, and if their endings do not tell one format.
SourceFiles input_files(const std::vector<std::string>& input, std::optional<InputFormat> format);

}  // namespace dtrain::data
