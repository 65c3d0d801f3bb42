#pragma once
// Files that others read as soon as they are there. Such a file appears with its whole text or not at all: a process
// that is killed meanwhile leaves no half of the text under its name.
#include <string>

namespace dtrain {

// Write a file that is not there yet, for this user alone. False: a file with this name is there already, or the file
// cannot be written.
bool write_new_file(const std::string& path, const std::string& text) noexcept;

// Write a file, for this user alone, in place of one that may be there. `part`: another name in the same folder, for
// the file while it is written; a file with that name is removed first. False: errno says why.
bool replace_file(const std::string& path, const std::string& part, const std::string& text) noexcept;

}  // namespace dtrain
