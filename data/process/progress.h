#pragma once
// How far the work is, for a line on a terminal. Pure.
#include <cstddef>
#include <functional>
#include <string>

namespace dtrain::data {

struct Progress {
  int pass = 0, passes = 1;  // over the rows; pass == passes while shuffled rows are written after the last one
  const char* doing = "";    // "gathering", "comparing", "transforming", "writing"
  std::size_t done = 0, all = 0;
};
// Called by one thread at a time, but not always by the same.
using ProgressSink = std::function<void(const Progress&)>;

// "gathering (pass 1 of 2): 50 % ". Empty: all of it is done.
std::string progress_text(const Progress& now);

}  // namespace dtrain::data
