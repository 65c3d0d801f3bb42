#pragma once
// Fills the folder of an entry by a script of the user's.
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/cache/cache_key.h"
#include "data/script/script_job.h"
#include "data/script/worker_job.h"

namespace dtrain::data {

// The script as an input of the entry. CacheError: it cannot be read.
CacheInput script_file(const ScriptJob& job);

// `fill` makes the entry's files of what the script has made of `input`: of `files`, in their order, into an empty
// folder. All of it is in FOLDER/script until it is whole. The job that runs the script prints to standard error, and
// is asked to end when this process dies. CacheError, with the job's exit code. Forks: call with one thread.
using FillFrom = std::function<void(const std::vector<std::string>& files, const std::filesystem::path& empty)>;
void fill_by_script(const ScriptJob& job, const std::vector<std::string>& input, const std::filesystem::path& folder,
                    const FillFrom& fill);

// Runs the job whose workers do the work on `folder`, to its end, likewise. Asks it to end once `must_end` says so, and
// then returns, however it ends. CacheError: it has failed.
void run_workers(const WorkerJob& job, const std::filesystem::path& folder, const std::function<bool()>& must_end);

}  // namespace dtrain::data
