#pragma once
// Which files the input consists of.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/recipe/recipe.h"

namespace dtrain::data {

struct InputFile {
  std::string path;
  std::int64_t bytes = 0;
};

struct InputFiles {
  std::vector<InputFile> files;
  InputFormat format;
};

// Of a folder or a pattern the files sorted by name, without those whose names begin with '.' or '_'. Throws DataError
// if there is none, if one is empty, or if their endings do not tell one format.
InputFiles input_files(const std::vector<std::string>& input, std::optional<InputFormat> format);

}  // namespace dtrain::data
