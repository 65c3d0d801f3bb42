#pragma once
// Files in which a job leaves why it failed, at paths that a user or another launcher chose: there may be a link, a
// FIFO that nobody reads, a full disk. None of it stops the job from ending.
#include <chrono>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// Write `text` there, as a whole or not at all. What is no regular file (a FIFO, /dev/stdout) is written to as it is,
// in at most 5 s; a FIFO needs a reader. `what` names the file in an error: "the report".
Result<void> write_whole_file(const std::string& what, const std::string& path, std::string_view text);

// The same for the report that the user named. The agents of one job on one host often name the same one.
// first_hand: the job failed on this node. Others leave alone what is there from `job_began` on: it knows more.
// False: left alone.
Result<bool> write_report_file(const std::string& path, const std::string& json, bool first_hand,
                               std::chrono::system_clock::time_point job_began);

}  // namespace dtrain::launcher
