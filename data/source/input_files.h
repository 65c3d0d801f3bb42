#pragma once
// Which files the input consists of.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/recipe/recipe.h"

namespace dtrain::data {

struct SourceFile {
  std::string path;
  std::int64_t bytes = 0;
};

struct SourceFiles {
  std::vector<SourceFile> files;
  InputFormat format;
};

// Of a folder or a pattern the files sorted by name, without those whose names begin with '.' or '_'. Throws DataError
// if there is none, if one is empty, or if their endings do not tell one format.
SourceFiles input_files(const std::vector<std::string>& input, std::optional<InputFormat> format);

}  // namespace dtrain::data
