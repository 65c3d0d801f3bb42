#pragma once
// What is in the folder that several processes fill and is not of their work: before they begin, and at the end.
#include <filesystem>
#include <set>

namespace dtrain::data {

// For a folder that somebody names: it must be empty, or have what a build has left that was killed before
// its plan or while there was one. A kill later, while a build ends or clears its folder, leaves what cannot be told
// from files of somebody else. Throws DataError: whoever names the folder must remove that.
void check_shared_folder(const std::filesystem::path& folder);

// Removes what is in the folder, as far as it can be: the plan first, as what is left by a kill is then of no use.
void clear_shared_folder(const std::filesystem::path& folder);

// Removes what is none of these files, in `folder` and in the folders in it where files of them are. Throws DataError,
// or NotThere if one of the folders goes.
void keep_only(const std::filesystem::path& folder, const std::set<std::filesystem::path>& files);

}  // namespace dtrain::data
