#pragma once
// The report file that the user named. The agents of one job on one host often name the same one.
#include <chrono>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// Write `json` there, as a whole or not at all; what is no regular file (a FIFO, /dev/stdout) is written to as it is.
// first_hand: the job failed on this node. Others leave alone what is there from `job_began` on: it knows more.
// False: left alone.
Result<bool> write_report_file(const std::string& path, const std::string& json, bool first_hand,
                               std::chrono::system_clock::time_point job_began);

}  // namespace dtrain::launcher
