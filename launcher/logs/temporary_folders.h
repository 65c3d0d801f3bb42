#pragma once
// The folder of a job's logs in a place for temporary files, where the user named none.
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// What is said of a folder for logs that cannot be made.
Error no_folder(const std::string& path, int error);

// Make a folder of a name that was free: `stem` and eight random characters.
Result<std::string> make_fresh_folder(const std::string& stem);

struct TemporaryFolder {
  std::string path;
  UniqueFd held;  // for as long as the job lives, see folders.h
};

// A fresh folder in `tmp`. Those of this user's dead jobs that hold nothing but folders go first: nobody was left to
// remove them. Only some are looked into, where there are many, and others the next time.
Result<TemporaryFolder> make_temporary_folder(const std::string& tmp);

}  // namespace dtrain::launcher
