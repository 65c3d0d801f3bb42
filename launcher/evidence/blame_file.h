#pragma once
// Whom a worker blames for its end. dtrain's training layer writes it to a file of the round's folder
// (DTRAIN_ROUND_DIR, docs/worker-contract.md) when a collective or a message fails; else it may be told by the
// exception's text. Tested by test/unit/launcher/evidence/last_exception_test.cc.
#include <optional>
#include <string>
#include <string_view>

#include "launcher/job/root_cause.h"

namespace dtrain::launcher {

// The file of a worker of this rank (of the job) in the round's folder; empty without a folder.
std::string blame_path(const std::string& round_folder, int rank);

// The file's text: {"because_of": 1, "what": "left the job", "ends": true}. Any other text gives nothing. Pure, for any
// bytes.
std::optional<Blame> parse_blame(std::string_view text);

// Whom an exception's line blames: dtrain's own exceptions name the rank; gloo and NCCL say only that a peer has gone.
// Pure.
Blame blame_in(std::string_view exception);

// Read, parse and remove the file: a folder of logs that nobody asked for goes when the folder is empty. Without a
// file, or with an empty path, nobody is blamed.
Blame take_blame_file(const std::string& path);

}  // namespace dtrain::launcher
