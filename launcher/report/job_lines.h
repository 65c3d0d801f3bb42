#pragma once
// What dtrain says of a job at its start and at its success. Pure.
#include <chrono>
#include <string>

#include "launcher/job/job_spec.h"

namespace dtrain::launcher {

// "2 workers of train.py, logs in /tmp/logs/job-1"; the folder where workers' streams go to files. log_folder: empty if
// there is none.
std::string start_line(const JobSpec& spec, const std::string& log_folder);
// "done: 2 workers, 1.3 s, 1 restart, logs in /tmp/logs/job-1".
std::string success_line(const JobSpec& spec, const std::string& log_folder, int restarts,
                         std::chrono::nanoseconds took);

}  // namespace dtrain::launcher
