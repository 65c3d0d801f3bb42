#pragma once
// The files that the words of `dataset.input` mean.
#include <filesystem>
#include <string>
#include <vector>

#include "data/cache/cache_key.h"

namespace dtrain::data {

enum class InputsBy {
  mtime,    // size and time of change stand for the content
  content,  // SHA-256 of the content
};

// Each word is a file, a folder (all files below it) or a pattern with *, ? and []. Within a folder and a pattern,
// names that begin with . or _ are left out. Sorted within a word, words in their order; no file twice.
std::vector<InputFile> input_files(const std::vector<std::string>& words, InputsBy by);

// CacheError: one of them is no longer what it was.
void check_unchanged(const std::vector<InputFile>& inputs);

// Where the first input lies.
std::filesystem::path usual_cache(const std::string& first_word);

// Size and SHA-256 of a regular file.
InputFile digest_file(const std::filesystem::path& path);

}  // namespace dtrain::data
