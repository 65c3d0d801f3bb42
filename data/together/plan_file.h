#pragma once
// The plan by which several processes do the same work (together.h): of these versions of dtrain and Arrow, a recipe,
// input files with their sizes and times of change, and a memory limit with the number of processes that shared a host
// when it was chosen. together.cc adds a digest of how the work is divided.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "data/recipe/recipe.h"

namespace dtrain::data {

inline constexpr const char* kSameInput =
    "all nodes must see the same input under the same paths; or let one node do the work: num_workers: 1";

// "1.2.3 with Arrow 24.0.0": the bytes of the files are Arrow's, too.
std::string own_version();

// In the folder of the work.
inline std::filesystem::path plan_path(const std::filesystem::path& work) { return work / "plan.json"; }
// What is in it, whatever that is; a discarded value if it is no JSON. Nothing: there is no plan.
std::optional<nlohmann::json> read_plan(const std::filesystem::path& work);

// Throws DataError: a file cannot be found, or its name is no text in UTF-8, which JSON is.
nlohmann::json plan_of(const Recipe& recipe, std::int64_t memory, std::size_t on_a_host);
// It is whole, and of this version.
bool is_plan(const nlohmann::json& plan);
// A build has made it, of whatever version. So its folder is a build's.
bool is_plan_of_some_version(const nlohmann::json& plan);
// Of what is no plan of this version: what it is, and what to do.
std::string what_is_other(const nlohmann::json& plan, const std::filesystem::path& path);
// This host sees the `wanted` files of a plan. Throws DataError, with the node's name and what to do.
void check_files(const Recipe& recipe, const nlohmann::json& wanted);
// What is left of the same work in its folder .work: its plan. Whoever gives files their last numbers, or removes what
// is left, removes that first. `on_a_host` processes share a host now. Are they more than before, then a limit that
// nobody has named would be too large for them, and the plan does not count.
std::optional<nlohmann::json> plan_left(const Recipe& recipe, const std::filesystem::path& work, std::size_t on_a_host);

}  // namespace dtrain::data
