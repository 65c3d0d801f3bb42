#pragma once
// The input files of an entry, on disk or in an object store, and that they stay what they were.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/cache/cache_inputs.h"
#include "data/commands/data_command.h"

namespace dtrain::data {

// Whether `input` of the recipe names a store.
bool is_in_store(const nlohmann::json& recipe);

// Listing and hashing them may take minutes.
std::vector<CacheInput> wanted_inputs(const Processor& processor, const nlohmann::json& recipe, InputsBy by);

// In the child that has read them. `recipe` names each. CacheError: an object of a store has changed.
void check_objects_unchanged(const Processor& processor, const nlohmann::json& recipe,
                             const std::vector<CacheInput>& inputs);

}  // namespace dtrain::data
