#pragma once
// The plan by which several processes do the same work (together.h): of this version of dtrain, a recipe, input files
// with their sizes and times of change, and a memory limit. together.cc adds a digest of how the work is divided.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/recipe/recipe.h"

namespace dtrain::data {

inline constexpr const char* kSameInput =
    "all nodes must see the same input under the same paths; or let one node do the work: num_workers: 1";

std::string own_version();

// Throws DataError: a file cannot be found, or its name is no text in UTF-8, which JSON is.
nlohmann::json plan_of(const Recipe& recipe, std::int64_t memory);
// It is of this version.
bool is_plan(const nlohmann::json& plan);
// This host sees the `wanted` files of a plan. Throws DataError, with the node's name and what to do.
void check_files(const Recipe& recipe, const nlohmann::json& wanted);
// What is left of the same work in its folder .work: its plan. Whoever gives files their last numbers, or removes what
// is left, removes that first.
std::optional<nlohmann::json> plan_left(const Recipe& recipe, const std::filesystem::path& work);

}  // namespace dtrain::data
