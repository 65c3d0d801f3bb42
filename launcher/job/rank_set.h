#pragma once
// A set of ranks, kept as ranges: "0-3,12". Pure.
#include <map>
#include <string>

namespace dtrain::launcher {

class RankSet {
 public:
  // Add first..last, both included; 0 <= first <= last.
  void add(int first, int last);
  void add(int rank) { add(rank, rank); }

  bool contains(int rank) const;
  bool empty() const { return ranges_.empty(); }
  // Ranges in ascending order, neighbours joined: "0-3,12".
  std::string text() const;

 private:
  std::map<int, int> ranges_;  // first -> last; they neither overlap nor touch
};

}  // namespace dtrain::launcher
