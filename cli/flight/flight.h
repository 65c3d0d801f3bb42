#pragma once
// `dtrain flight`: compares the files of the ranks' flight recorders.
#include <string>
#include <vector>

namespace dtrain::cli {

// Returns the exit code: 0 where nothing stands still, 1 where something does, 2 where the words, a folder or a file
// are wrong. What can be read is told in any case.
int flight_command(const std::vector<std::string>& words);

}  // namespace dtrain::cli
