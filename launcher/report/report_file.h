#pragma once
// Files in which a job leaves why it failed, at paths that a user or another launcher chose: there may be a link, a
// FIFO that nobody reads, a full disk. None of these keeps the job from ending.
#include <chrono>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

// Write `text` to the file, as a whole or not at all. A path that is no regular file (a FIFO, /dev/stdout) is written
// to directly, in at most 5 s; a FIFO needs a reader. `what` names the file in an error: "the report".
Result<void> write_whole_file(const std::string& what, const std::string& path, std::string_view text);

// The same for the report file that the user named. The agents of one job on one host often share the file. first_hand:
// the job failed on this node. An agent that is not first-hand leaves a file alone that was written since `job_began`:
// that report knows more. Returns whether the file was written.
Result<bool> write_report_file(const std::string& path, const std::string& json, bool first_hand,
                               std::chrono::system_clock::time_point job_began);

}  // namespace dtrain::launcher
