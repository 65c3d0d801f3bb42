// Tested by test/process/data/cache_test.py.
#include "data/commands/wanted_inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/base/store_uri.h"
#include "data/cache/cache_error.h"
#include "data/entry/build_child.h"

namespace dtrain::data {

bool is_in_store(const nlohmann::json& recipe) {
  const auto words = recipe.at("input").get<std::vector<std::string>>();
  return std::any_of(words.begin(), words.end(), is_store_uri);
}

namespace {

// By way of a child, which has the threads that a store's client starts: this process forks again.
std::vector<CacheInput> found_in_stores(const Processor& processor, const nlohmann::json& recipe) {
  const std::string text = said_by_child([&] {
    nlohmann::json all = nlohmann::json::array();
    for (const CacheInput& file : processor.files_and_objects(recipe))
      all.push_back({file.path, file.size, file.mtime_ns});
    return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  });
  std::vector<CacheInput> files;
  for (const auto& file : nlohmann::json::parse(text))
    files.push_back(
        {file.at(0).get<std::string>(), file.at(1).get<std::uint64_t>(), file.at(2).get<std::int64_t>(), {}});
  return files;
}

}  // namespace

std::vector<CacheInput> wanted_inputs(const Processor& processor, const nlohmann::json& recipe, InputsBy by) {
  if (is_in_store(recipe)) return cache_inputs(found_in_stores(processor, recipe), by);
  return cache_inputs(processor.files(recipe), by);
}

void check_objects_unchanged(const Processor& processor, const nlohmann::json& recipe,
                             const std::vector<CacheInput>& inputs) {
  for (const CacheInput& now : processor.files_and_objects(recipe)) {
    const auto before =
        std::find_if(inputs.begin(), inputs.end(), [&](const auto& one) { return one.path == now.path; });
    if (before != inputs.end() && is_store_uri(now.path) &&
        (now.size != before->size || now.mtime_ns != before->mtime_ns))
      throw CacheError(kSystemCode,
                       fmt::format("{}: it has changed while it was read; start again when it is whole", now.path));
  }
}

}  // namespace dtrain::data
