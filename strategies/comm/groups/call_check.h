#pragma once
// A debug mode: before each collective, all ranks tell each other what they are about to call, with the types and
// shapes of the tensors, and all throw if the calls differ. Without this mode a group compares only what it needs in
// order not to hang: the operation, its size, its root, and the type of a reduction.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "strategies/comm/base/call_origin.h"
#include "strategies/comm/groups/group.h"

namespace dtrain {

// Whether the mode is on: DTRAIN_CHECK_CALLS=1, or TORCH_DISTRIBUTED_DEBUG=DETAIL. Throws ConfigError if the first is
// neither 0 nor 1.
bool checks_calls();

// What a rank is about to call, in the same number of bytes on every rank: the beginning of the text, and a hash of the
// whole text. Its origin is shown, and not compared.
using CallRecord = std::array<char, 256>;
CallRecord record_of(const std::string& text, const CallOrigin& origin = {});
std::string text_of(const CallRecord& record);

// The first rank whose record differs from rank 0's; nothing if all are the same.
std::optional<int> first_other(const std::vector<CallRecord>& records);

// Collective. If the texts of the ranks differ, it throws CollectiveError with FailureKind::mismatched on every rank.
void require_same_calls(CommGroup& group, int rank, int ranks, const std::string& text, CommGroup::Timeout timeout);

}  // namespace dtrain
