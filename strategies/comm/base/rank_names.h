#pragma once
// The ranks of a group as the job knows them: what is below counts a group's ranks from 0, and errors name those of the
// job. Pure.
#include <exception>
#include <string>
#include <vector>

namespace dtrain {

struct RankNames {
  std::string group;       // its name
  std::vector<int> ranks;  // of the job, by rank in the group; none: they are the same, and the group needs no name

  // The job's number of a rank of the group.
  int of(int rank) const;
  // What a line about the group begins with: "group 'shard' (ranks 2, 3): ", or nothing where it needs no name.
  std::string prefix() const;
};

// "2, 3", or of many the first ones and how many there are.
std::string text_of(const std::vector<int>& ranks);

// `text` with the job's number wherever it says "rank" and a number of the group's.
std::string renamed(const std::string& text, const RankNames& names);
// The same error with the job's ranks, and with the group's name before what happened.
std::exception_ptr renamed(const std::exception_ptr& error, const RankNames& names);

}  // namespace dtrain
