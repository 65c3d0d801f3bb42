#pragma once
// process() by several processes that share the work, on one host or on several that see the folder.
//   FOLDER/.work/plan.json   what is to be done, so that all do the same
//   FOLDER/.work/PHASE/...   who does which part, and what has become of it (task_folder.h)
//   FOLDER/.work/whole       all parts are done
//   FOLDER/.work/rows.*      rows that go from one part to others, a file for each process
// It is gone at the end. What is there when all of them die, on one host, is good for who begins again.
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

#include "data/process/process.h"
#include "data/together/task_folder.h"

namespace dtrain::data {

// Starts the processes, each of which calls work_together(), and returns when all of them have ended. Throws if they
// have not done it. Once `must_end` says so, they are ended: one of them has failed, or all is done, and some seconds
// later others are still there.
using StartWorkers = std::function<void(const std::filesystem::path& folder, const std::function<bool()>& must_end)>;

struct TogetherOptions {
  // So many of the processes are on a host, and share what is a quarter of the memory if the recipe has no limit.
  std::size_t on_a_host = 1;
  // Told as often as `must_end` is called, and then while this process does what is left.
  ProgressSink progress{};
  std::function<void(const std::string& line)> say{};  // a line that is no error, for people
};

// The files are the same byte for byte as those of process() with this memory limit, however many processes there are.
// The limit is for each of them. FOLDER is the work's own: it is empty, or has what is left of the same work, and what
// else is there goes. Throws as process() does, and what `start` throws. After an error the folder is empty.
ProcessReport process_together(const Recipe& recipe, const std::filesystem::path& folder,
                               const TogetherOptions& options, const StartWorkers& start);

// Does parts of the work until all is done, or one of the processes has failed: that one's error is then in the folder.
// `on_a_host`: of the processes, which share its cores. `patience`: for the folder to be seen here. Throws DataError:
// this host does not see the folder, or cannot use it, or could not leave its error there, which this is then. Throws
// NotThere if the folder goes meanwhile.
void work_together(const std::filesystem::path& folder, Seat seat, std::size_t on_a_host,
                   std::chrono::milliseconds patience);

// `dtrain-data work FOLDER`: work_together() with what the environment of dtrain's workers says. Returns the exit code.
int run_worker(const std::filesystem::path& folder);

}  // namespace dtrain::data
