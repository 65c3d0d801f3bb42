#pragma once
// What the launcher is told when this process fails because of another rank: a small file in the round's folder, which
// dtrain reads when the process has ended. Without dtrain as the launcher (DTRAIN_ROUND_DIR) nothing is written.
#include <cstdint>
#include <exception>
#include <string>

#include "dtrain/errors.h"
#include "strategies/comm/base/rank_names.h"

namespace dtrain {

// The file's text: the rank of the job that is to blame, what it did, whether it is about to end by itself. Pure.
std::string consequence_json(FailureKind kind, int rank, std::int64_t unix_seconds);

// Read the environment. Before other threads may change it.
void prepare_to_tell_launcher();

// Returns `error`, as its thrower has named it. If it is a CollectiveError that blames another rank, the launcher is
// told first, once in a process. `names` and `size` are of the group that failed: without names, ranks of a group that
// is not of the whole job are not known, and nothing is told.
std::exception_ptr told_to_launcher(const std::exception_ptr& error, const RankNames& names, int size);

}  // namespace dtrain
