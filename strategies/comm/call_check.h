#pragma once
// A debug mode: before each collective all ranks tell each other what they are about to do, with the types and shapes
// of its tensors, and all throw where those differ. Without it a group compares the operation, its size, root and, of
// reductions, type: what it needs in order not to hang.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "strategies/comm/group.h"

namespace dtrain {

// DTRAIN_CHECK_CALLS=1, or TORCH_DISTRIBUTED_DEBUG=DETAIL. Throws ConfigError where the first is neither 0 nor 1.
bool checks_calls();

// What a rank is about to do, in as many bytes on every rank: the first part of a long text, and a hash of all of it.
using CallRecord = std::array<char, 256>;
CallRecord record_of(const std::string& text);
std::string text_of(const CallRecord& record);

// The first rank whose record is not rank 0's, if there is one.
std::optional<int> first_other(const std::vector<CallRecord>& records);

// Collective. Throws CollectiveError with FailureKind::mismatched on every rank.
void require_same_calls(CommGroup& group, int rank, int ranks, const std::string& text, CommGroup::Timeout timeout);

}  // namespace dtrain
