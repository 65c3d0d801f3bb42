#pragma once
// Folders as a whole: removing those that hold nothing, and telling the folders of dead jobs from those of living ones.
// A job holds the folder that it makes by a lock. The lock goes with the last process that has the folder open,
// whatever that process dies of, and is seen from every PID namespace.
#include <sys/types.h>

#include <string>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// Open a folder itself, not what a link of this name leads to. Empty: see errno.
UniqueFd open_folder(const std::string& path);

// Remove folders that hold nothing but such folders; true if `folder` is gone.
bool remove_empty_folders(const std::string& folder);

// Hold this folder for as long as the descriptor, or a copy of it in a child, is open. Empty: the folder is gone, or
// another job has taken it for a leftover and removes it (ENOENT, EWOULDBLOCK); make another one.
UniqueFd hold_folder(const std::string& path);

// Make a folder and hold it before another job takes it for a leftover. If the name is taken, or if another job was
// faster, further names are tried: `path` becomes the one that was made. Empty: see errno, and no folder is left.
UniqueFd make_held_folder(std::string& path, mode_t mode);

// Take a folder that nobody holds, to remove it: nobody can hold it while the descriptor is open. Empty: somebody holds
// the folder, or locks do not work there.
UniqueFd take_left_folder(const std::string& path);

}  // namespace dtrain::launcher
