#pragma once
// What is in the folder that several processes fill, before they begin.
#include <filesystem>

namespace dtrain::data {

// For a folder that somebody names: it must be empty, or have what a killed build has left. Throws DataError.
void check_shared_folder(const std::filesystem::path& folder);

// Removes what is in the folder, as far as it can be: the plan first, as what is left by a kill is then of no use.
void clear_shared_folder(const std::filesystem::path& folder);

}  // namespace dtrain::data
