#pragma once
// The files that an entry is made of, as its key knows them.
#include <filesystem>
#include <string>
#include <vector>

#include "data/cache/cache_key.h"

namespace dtrain::data {

enum class InputsBy {
  mtime,    // size and time of change stand for the content
  content,  // SHA-256 of the content
};

// In the order in which they are read; none counts twice.
std::vector<CacheInput> cache_inputs(const std::vector<std::string>& files, InputsBy by);
// The same, where objects of a store are among them, whose sizes and times are known.
std::vector<CacheInput> cache_inputs(const std::vector<CacheInput>& files, InputsBy by);

// CacheError: one of them is no longer what it was. Objects of a store are not looked at.
void check_unchanged(const std::vector<CacheInput>& inputs);

// Where the first input lies: `word` is a file, a folder or a pattern.
std::filesystem::path usual_cache(const std::string& word);

// Size and SHA-256 of a regular file.
CacheInput digest_file(const std::filesystem::path& path);

}  // namespace dtrain::data
